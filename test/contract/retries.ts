import type { Test } from 'tap';
import { digestOf } from '../../src/core/lib/digest.ts';
import type { ErrorCode } from '../../src/core/lib/error-codes.ts';
import { WaybillError } from '../../src/core/lib/errors.ts';
import type { PublishJob } from '../../src/workers/queue/job.ts';
import type { JobProcessor, JobQueue } from '../../src/workers/queue/job-queue.ts';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import type { RetrySettings } from '../../src/workers/queue/run-retry.ts';
import { type QueueHarness, type QueueSettings, runResult } from './queue.ts';

type Start = (
  t: Test,
  settings?: Partial<QueueSettings>,
) => Promise<QueueHarness & { expired: string[]; discarded: string[] }>;

const hour = 3_600_000;
/** No retry starts by itself within a test. */
const late = { baseMs: hour, capMs: hour, random: () => 0.5 };
const soon = { baseMs: 20, capMs: 20, random: () => 0.5 };

const settingsOf = (pauses: typeof soon, more: Partial<RetrySettings> = {}): Partial<QueueSettings> => ({
  retries: () => ({ forMs: hour, whileRetrying: 'pass', hasSingleTarget: false, pauses, ...more }),
});

/** The part of the `JobQueue` contract for retried runs. */
export function retryContract(t: Test, start: Start): void {
  t.test('a run that fails for a temporary cause is queued again, and succeeds when retried', async (t) => {
    const { queue, elapse } = await start(t, settingsOf(soon));
    const workers = scripted({ 'maps.1': ['storage_transient', 'destination_busy'] });
    const seen = observed();
    await queue.start(workers.process, seen.observer);
    await submit(queue, 'maps.1', 'session-1');
    const record = await untilRecord(queue, elapse, 'maps.1', ({ status }) => status === 'succeeded');
    t.match(record, {
      attempt: 3,
      next_try_at: null,
      last_error: { code: 'destination_busy' },
      error: null,
    });
    t.ok(Date.parse(record.retry_until ?? ''), 'reports the time limit of the retries');
    t.same(workers.begun, ['maps.1', 'maps.1', 'maps.1']);
    await until(() => seen.calls.length === 4, elapse);
    t.same(seen.calls, ['started', 'retried 2', 'retried 3', 'finished true'], 'one run for the observer');
  });

  t.test('a run that waits for a retry shows the cause, and holds no slot', async (t) => {
    const { queue, elapse } = await start(t, { ...settingsOf(late), queueSize: 1, maxConcurrency: 1 });
    const workers = scripted({ 'maps.1': ['storage_transient'] });
    await queue.start(workers.process);
    await submit(queue, 'maps.1', 'session-1');
    const waiting = await untilRetrying(queue, elapse, 'maps.1');
    t.match(waiting, {
      ...{ status: 'queued', attempt: 2, started_at: null, finished_at: null, error: null },
      ...{ last_error: { code: 'storage_transient', retryable: true }, rerunnable: false, progress: null },
    });
    t.ok(Date.parse(waiting.next_try_at ?? '') > Date.parse(waiting.accepted_at));
    t.same(await queue.depth(), { reserved: 0, queued: 0, running: 0 });
    t.match(await queue.overview(['maps']), [{ waiting: 0, retrying: 1, running: null }]);
    await submit(queue, 'docs.1', 'session-1');
    await untilEnd(queue, elapse, 'docs.1');
    t.match(await queue.list(['maps'], { limit: 5, status: 'queued' }), { runs: [{ run_id: 'maps.1' }] });
  });

  t.test('a permanent cause fails the run immediately', async (t) => {
    const { queue, elapse } = await start(t, settingsOf(soon));
    await queue.start(scripted({ 'maps.1': ['storage_denied'] }).process);
    await submit(queue, 'maps.1', 'session-1');
    t.match(await untilEnd(queue, elapse, 'maps.1'), {
      ...{ status: 'failed', attempt: 1, next_try_at: null, last_error: null },
      error: { code: 'storage_denied' },
    });
  });

  t.test('a run fails with its last cause once retry_for has passed', async (t) => {
    const { queue, elapse } = await start(t, settingsOf(soon, { forMs: 200 }));
    const always = Array<ErrorCode>(1_000).fill('storage_transient');
    const workers = scripted({ 'maps.1': always });
    await queue.start(workers.process);
    await submit(queue, 'maps.1', 'session-1');
    const failed = await untilEnd(queue, elapse, 'maps.1');
    t.match(failed, { status: 'failed', next_try_at: null, rerunnable: true });
    t.match(failed.error, {
      code: 'storage_transient',
      message: `failure ${workers.begun.length} of maps.1`,
    });
    t.equal(failed.attempt, workers.begun.length);
    t.ok(failed.attempt > 1);
  });

  t.test('a run that waits for a retry can be cancelled', async (t) => {
    const { queue, elapse, discarded } = await start(t, settingsOf(late));
    const workers = scripted({ 'maps.1': ['storage_transient'] });
    await queue.start(workers.process);
    await submit(queue, 'maps.1', 'session-1');
    await untilRetrying(queue, elapse, 'maps.1');
    t.match(await queue.cancel('maps.1'), { outcome: 'forgotten', record: { status: 'failed' } });
    t.match(await queue.find('maps.1'), {
      status: 'failed',
      next_try_at: null,
      error: { code: 'cancelled' },
    });
    await t.rejects(queue.retryNow('maps.1'), { code: 'run_finished' });
    t.match(await queue.overview(['maps']), [{ retrying: 0 }]);
    // The clock may exceed the retention meanwhile.
    await until(() => discarded.includes('maps.1'), elapse);
    t.same(workers.begun, ['maps.1']);
  });

  t.test('a run that waits for a retry is retried immediately on request', async (t) => {
    const { queue, elapse } = await start(t, settingsOf(late));
    const workers = scripted({ 'maps.1': ['storage_transient'] });
    await t.rejects(queue.retryNow('maps.1'), { code: 'run_not_found' });
    await submit(queue, 'maps.1', 'session-1');
    t.match(await queue.retryNow('maps.1'), { status: 'queued', attempt: 1, next_try_at: null }, 'no change');
    await queue.start(workers.process);
    await untilRetrying(queue, elapse, 'maps.1');
    await queue.pause('maps', null);
    t.match(await queue.retryNow('maps.1'), { status: 'queued', attempt: 2 });
    t.match(await queue.retryNow('maps.1'), { status: 'queued', attempt: 2 }, 'may be repeated');
    await submit(queue, 'docs.1', 'session-1');
    await untilEnd(queue, elapse, 'docs.1');
    t.same(workers.begun, ['maps.1', 'docs.1'], 'a pause delays it');
    await queue.resume('maps');
    t.match(await untilEnd(queue, elapse, 'maps.1'), { status: 'succeeded', attempt: 2 });
    await t.rejects(queue.retryNow('maps.1'), { code: 'run_finished' });
  });

  t.test('a newer upload of the same bundle path replaces a run that waits for a retry', async (t) => {
    const { queue, elapse, discarded } = await start(t, settingsOf(late));
    const workers = scripted({ 'maps.1': ['storage_transient'], 'maps.2': ['storage_transient'] });
    const seen = observed();
    await queue.start(workers.process, seen.observer);
    for (const [id, path] of Object.entries({ 'maps.1': 'session-1', 'maps.2': 'session-2' })) {
      await submit(queue, id, path);
      await untilRetrying(queue, elapse, id);
    }
    await submit(queue, 'maps.3', 'session-1');
    t.match(await untilEnd(queue, elapse, 'maps.1'), {
      ...{ status: 'failed', attempt: 2, next_try_at: null, rerunnable: true },
      error: { code: 'superseded', message: 'the newer run maps.3 replaced this run', retryable: false },
    });
    t.match(await untilEnd(queue, elapse, 'maps.3'), { status: 'succeeded' });
    t.match(
      await queue.find('maps.2'),
      { status: 'queued' },
      'another path is not replaced, and was published in between',
    );
    await untilRetrying(queue, elapse, 'maps.2');
    t.notOk(discarded.includes('maps.1'), 'its bundle stays for a rerun');
    t.same(workers.begun, ['maps.1', 'maps.2', 'maps.3']);
    t.equal(seen.calls.filter((call) => call === 'superseded').length, 1);
  });

  t.test(
    'a newer upload that arrives during an attempt replaces the run after the attempt fails',
    async (t) => {
      const { queue, elapse } = await start(t, settingsOf(late));
      let open = (): void => undefined;
      const gate = new Promise<void>((resolve) => (open = resolve));
      const workers = scripted({ 'maps.1': ['storage_transient'] }, gate);
      await queue.start(workers.process);
      await submit(queue, 'maps.1', 'session-1');
      await until(() => workers.begun.length === 1, elapse);
      await submit(queue, 'maps.2', 'session-1');
      open();
      t.match(await untilEnd(queue, elapse, 'maps.1'), { error: { code: 'superseded' } });
      t.match(await untilEnd(queue, elapse, 'maps.2'), { status: 'succeeded' });
    },
  );

  t.test('an upload to another path replaces a run only if the destination path is fixed', async (t) => {
    const { queue, elapse } = await start(t, settingsOf(late, { hasSingleTarget: true }));
    await queue.start(scripted({ 'maps.1': ['storage_transient'] }).process);
    await submit(queue, 'maps.1', 'session-1');
    await untilRetrying(queue, elapse, 'maps.1');
    await submit(queue, 'maps.2', 'session-2', 'preview');
    await untilEnd(queue, elapse, 'maps.2');
    await untilRetrying(queue, elapse, 'maps.1');
    await submit(queue, 'maps.3', 'session-3');
    t.match(await untilEnd(queue, elapse, 'maps.1'), { error: { code: 'superseded' } });
  });

  t.test('later runs wait for a run that is being retried, if so configured', async (t) => {
    const { queue, elapse } = await start(t, settingsOf(late, { whileRetrying: 'wait' }));
    const workers = scripted({ 'maps.1': ['storage_transient'] });
    await queue.start(workers.process);
    await submit(queue, 'maps.1', 'session-1');
    await untilRetrying(queue, elapse, 'maps.1');
    await submit(queue, 'maps.2', 'session-2');
    await submit(queue, 'docs.1', 'session-1');
    await untilEnd(queue, elapse, 'docs.1');
    t.match(await queue.find('maps.2'), { status: 'queued' }, 'other pipelines continue');
    await queue.retryNow('maps.1');
    await untilEnd(queue, elapse, 'maps.2');
    t.same(workers.begun, ['maps.1', 'docs.1', 'maps.1', 'maps.2']);
  });

  t.test('waiting runs start when the run that blocks them ends', async (t) => {
    const { queue, elapse } = await start(t, settingsOf(late, { whileRetrying: 'wait' }));
    const workers = scripted({ 'maps.1': ['storage_transient'], 'maps.3': ['storage_transient'] });
    await queue.start(workers.process);
    await submit(queue, 'maps.1', 'session-1');
    await untilRetrying(queue, elapse, 'maps.1');
    await submit(queue, 'maps.2', 'session-2');
    await queue.cancel('maps.1');
    t.match(await untilEnd(queue, elapse, 'maps.2'), { status: 'succeeded' });
    await submit(queue, 'maps.3', 'session-3');
    await untilRetrying(queue, elapse, 'maps.3');
    await submit(queue, 'maps.4', 'session-4');
    await submit(queue, 'maps.5', 'session-3');
    await untilEnd(queue, elapse, 'maps.5');
    t.same(workers.begun, ['maps.1', 'maps.2', 'maps.3', 'maps.4', 'maps.5']);
  });

  t.test('a trigger starts no run while one of the pipeline waits for a retry', async (t) => {
    const { queue, elapse } = await start(t, settingsOf(late));
    await queue.start(scripted({ 'maps.1': ['storage_transient'] }).process);
    const trigger = { kind: 'watch', state: 'first' } as const;
    await queue.triggers.decide({ runId: 'maps.1', pipelineId: 'maps', staged: null, trigger });
    await untilRetrying(queue, elapse, 'maps.1');
    const next = {
      runId: 'maps.2',
      pipelineId: 'maps',
      staged: null,
      trigger: { ...trigger, state: 'next' },
    };
    t.match(await queue.triggers.decide(next), { outcome: 'coalesced' });
    await submit(queue, 'maps.3', null);
    t.match(
      await untilEnd(queue, elapse, 'maps.1'),
      { error: { code: 'superseded' } },
      'a requested run does',
    );
  });
}

/** Workers that fail each attempt of a run with the next code of its list, and succeed afterwards. */
function scripted(failures: Record<string, ErrorCode[]>, gate: Promise<void> = Promise.resolve()) {
  const begun: string[] = [];
  const process: JobProcessor = async ({ runId }) => {
    begun.push(runId);
    await gate;
    const attempt = begun.filter((id) => id === runId).length;
    const code = failures[runId]?.[attempt - 1];
    if (code !== undefined) throw new WaybillError(code, `failure ${attempt} of ${runId}`);
    return runResult('ok');
  };
  return { begun, process };
}

function observed() {
  const calls: string[] = [];
  return {
    calls,
    observer: {
      started: () => void calls.push('started'),
      retried: ({ record }: { record: RunRecord }) => void calls.push(`retried ${record.attempt}`),
      superseded: () => void calls.push('superseded'),
      rejected: () => undefined,
      finished: ({ succeeded }: { succeeded: boolean }) => void calls.push(`finished ${succeeded}`),
    },
  };
}

async function submit(
  queue: JobQueue,
  runId: string,
  bundlePath: string | null,
  channel?: string,
): Promise<void> {
  const pipelineId = runId.split('.', 1)[0] ?? '';
  const to = channel === undefined ? {} : { channel };
  const job: PublishJob =
    bundlePath === null
      ? { runId, pipelineId, staged: null }
      : { runId, pipelineId, staged: `/staging/${runId}`, bundlePath, ...to };
  const admission = await queue.reserve({ pipelineId });
  await admission.accept(job, digestOf(runId));
}

type Elapse = QueueHarness['elapse'];

const untilEnd = (queue: JobQueue, elapse: Elapse, runId: string): Promise<RunRecord> =>
  untilRecord(queue, elapse, runId, ({ finished_at }) => finished_at !== null);

const untilRetrying = (queue: JobQueue, elapse: Elapse, runId: string): Promise<RunRecord> =>
  untilRecord(queue, elapse, runId, ({ status, next_try_at }) => status === 'queued' && next_try_at !== null);

/** Advances time until the record is right. The test's own timeout ends the loop. */
async function untilRecord(
  queue: JobQueue,
  elapse: Elapse,
  runId: string,
  isRight: (record: RunRecord) => boolean,
): Promise<RunRecord> {
  for (;;) {
    const record = await queue.find(runId);
    if (record !== undefined && isRight(record)) return record;
    await elapse(5);
  }
}

async function until(isRight: () => boolean, elapse: Elapse): Promise<void> {
  while (!isRight()) await elapse(5);
}
