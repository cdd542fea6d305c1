import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { AbandonedEvent } from '../../../src/core/notify/outbox.ts';
import {
  openQueueStore,
  type QueueStore,
  type QueueStoreOptions,
} from '../../../src/workers/embedded/queue-store.ts';
import { type Journal, noJournal, type StoredRun } from '../../../src/workers/memory/journal.ts';
import { type MemoryQueue, memoryQueue } from '../../../src/workers/memory/memory-queue.ts';
import type { PublishJob, Trigger } from '../../../src/workers/queue/job.ts';
import type { RunRecord } from '../../../src/workers/queue/run-record.ts';
import { acceptedRun, queuedRun } from '../../../src/workers/queue/run-transitions.ts';
import { newUploadDirectory } from '../../../src/workers/staging/staged-directories.ts';
import { queueContract, type QueueSettings, runResult } from '../../contract/queue.ts';
import { type ManualClock, manualClock } from '../manual-clock.ts';
import { newTally, openScheduler, scheduled, until } from '../schedule/hosts.ts';

const storeIn = (root: string, more: Partial<QueueStoreOptions> = {}): Promise<QueueStore> => {
  const staging = path.join(root, 'staging');
  mkdirSync(staging, { recursive: true });
  const directory = path.join(root, 'queue');
  return openQueueStore({ directory, staging, clock: systemClock, log: silentLog, ...more });
};

// The jobs of the contract have no staged files.
const root = t.testdir();
queueContract(t, async (settings) => {
  const clock = manualClock();
  const store = await storeIn(mkdtempSync(path.join(root, 'contract-')), { sync: async () => new Map() });
  const queue = memoryQueue({ clock, log: silentLog, journal: store.journal, ...settings });
  const close = queue.close.bind(queue);
  queue.close = async (timeoutMs) => {
    const answer = await close(timeoutMs);
    await store.close();
    return answer;
  };
  return { queue, elapse: clock.advance, waitingSurvives: true };
});

/** A daemon's queue that can be ended as by a kill, and opened again. */
class Daemon {
  readonly root: string;
  readonly clock: ManualClock = manualClock();
  expired: string[] = [];
  givenUp: string[] = [];
  queue!: MemoryQueue;
  store!: QueueStore;

  constructor(t: Test) {
    this.root = t.testdir();
    t.teardown(() => this.kill());
  }

  /** `altered` is between the queue and its journal. */
  async open(
    settings: Partial<QueueSettings> = {},
    altered: (journal: Journal) => Journal = (journal) => journal,
  ): Promise<this> {
    this.store = await storeIn(this.root);
    // The killed queue is still active in this process, so its callbacks must be ignored.
    const expired: string[] = [];
    this.expired = expired;
    const givenUp: string[] = [];
    this.givenUp = givenUp;
    this.queue = memoryQueue({
      clock: this.clock,
      log: silentLog,
      queueSize: 10,
      maxConcurrency: 10,
      retentionMs: 60_000,
      journal: altered(this.store.journal),
      onExpire: async ({ runId }) => void expired.push(runId),
      onAbandoned: ({ runId }) => void givenUp.push(runId),
      ...settings,
    });
    return this;
  }

  /** Keeps written data without a cleanup: active runs stay active. */
  kill(): Promise<void> {
    return this.store.close();
  }

  async submit(runId: string, key?: string): Promise<{ record: RunRecord; replayed: boolean }> {
    const [pipelineId = ''] = runId.split('.');
    const idempotency = key === undefined ? {} : { idempotency: { caller: 'ci', key } };
    const admission = await this.queue.reserve({ pipelineId, ...idempotency });
    const directory = await newUploadDirectory(path.join(this.root, 'staging'));
    mkdirSync(path.join(directory, 'files'));
    writeFileSync(path.join(directory, 'files/manifest.json'), runId);
    const job = { runId, pipelineId, staged: directory, bundlePath: '.' };
    return admission.accept(job, digestOf('the same'));
  }

  async finished(runId: string): Promise<RunRecord> {
    await this.queue.untilFinished(runId, new AbortController().signal);
    return (await this.queue.find(runId)) as RunRecord;
  }
}

const never = new Promise<never>(() => undefined);

t.test('after a kill, everything accepted is published, each pipeline in order', async (t) => {
  const daemon = await new Daemon(t).open({ maxConcurrency: 2 });
  const ids = ['maps.1', 'docs.1', 'maps.2', 'docs.2', 'maps.3'];
  for (const id of ids) await daemon.submit(id);
  await daemon.queue.start(() => never);
  t.match(await daemon.queue.depth(), { queued: 3, running: 2 });
  await daemon.kill();

  await daemon.open({ maxConcurrency: 2 });
  t.match(await daemon.queue.depth(), { reserved: 0, queued: 5, running: 0 });
  t.match(await daemon.queue.find('maps.1'), { status: 'queued', started_at: null });
  const order: PublishJob[] = [];
  await daemon.queue.start(async (job) => {
    order.push(job);
    return runResult('ok');
  });
  for (const id of ids) t.equal((await daemon.finished(id)).status, 'succeeded');
  for (const pipeline of ['maps', 'docs'])
    t.same(
      order.map(({ runId }) => runId).filter((id) => id.startsWith(pipeline)),
      ids.filter((id) => id.startsWith(pipeline)),
    );
  t.ok(
    order.every(({ begunAt }) => begunAt !== undefined),
    'any of them may have been committed: their start may not have been written',
  );
  for (const { staged } of order) t.ok(existsSync(path.join(staged ?? '', 'files/manifest.json')));
});

t.test('a run that waits for a retry keeps its due time after a kill', async (t) => {
  const pauses = { baseMs: 60_000, capMs: 60_000, random: () => 0.5 };
  const retries = () => ({ forMs: 600_000, whileRetrying: 'wait' as const, hasSingleTarget: false, pauses });
  const daemon = await new Daemon(t).open({ retries });
  await daemon.queue.start(async () => {
    throw new WaybillError('storage_transient', 'the server is unreachable');
  });
  await daemon.submit('maps.1');
  await daemon.clock.advance(0);
  const waiting = await daemon.queue.find('maps.1');
  t.match(waiting, { status: 'queued', attempt: 2, last_error: { code: 'storage_transient' } });
  await daemon.kill();

  await daemon.open({ retries });
  const order: string[] = [];
  await daemon.queue.start(async ({ runId, staged }) => {
    order.push(runId);
    t.ok(existsSync(path.join(staged ?? '', 'files/manifest.json')), 'its bundle is still staged');
    return runResult('ok');
  });
  t.same(await daemon.queue.find('maps.1'), waiting);
  t.match(await daemon.queue.overview(['maps']), [{ waiting: 0, retrying: 1 }]);
  await daemon.clock.advance(29_000);
  t.same(order, []);
  await daemon.clock.advance(1_000);
  t.match(await daemon.finished('maps.1'), { status: 'succeeded', attempt: 2 });
  t.same(order, ['maps.1']);
});

t.test('a newer upload accepted before a kill still replaces the waiting run afterwards', async (t) => {
  const pauses = { baseMs: 60_000, capMs: 60_000, random: () => 0.5 };
  const retries = () => ({ forMs: 600_000, whileRetrying: 'pass' as const, hasSingleTarget: false, pauses });
  // The kill comes before the end of the older run is written.
  const daemon = await new Daemon(t).open({ retries }, (journal) => ({
    ...journal,
    saveChange: (run) => {
      if (run.record.error?.code !== 'superseded') journal.saveChange(run);
    },
  }));
  await daemon.queue.start(async () => {
    throw new WaybillError('storage_transient', 'the server is unreachable');
  });
  await daemon.submit('maps.1');
  await daemon.clock.advance(0);
  await daemon.submit('maps.2');
  await daemon.kill();

  await daemon.open({ retries });
  t.match(await daemon.finished('maps.1'), { status: 'failed', error: { code: 'superseded' } });
  t.match(await daemon.queue.find('maps.2'), { status: 'queued' });
});

t.test('records and keys survive a kill, and expire on time', async (t) => {
  const daemon = await new Daemon(t).open({ retentionMs: 10_000 });
  await daemon.queue.start(async ({ runId }) => runResult(runId === 'maps.2' ? 'failed' : 'ok'));
  for (const id of ['maps.1', 'maps.2']) {
    await daemon.submit(id, id);
    await daemon.finished(id);
    await daemon.clock.advance(3_000);
  }
  const before = await daemon.queue.list(['maps'], { limit: 10 });
  await daemon.kill();

  await daemon.open({ retentionMs: 10_000 });
  t.same(await daemon.queue.list(['maps'], { limit: 10 }), before);
  t.match(await daemon.queue.overview(['maps']), [{ lastSuccess: { run_id: 'maps.1' } }]);
  t.match(await daemon.submit('maps.3', 'maps.1'), { replayed: true, record: { run_id: 'maps.1' } });
  t.match(await daemon.submit('maps.4', 'maps.2'), { replayed: true, record: { status: 'failed' } });
  await daemon.clock.advance(3_999);
  t.same(daemon.expired, []);
  await daemon.clock.advance(1);
  t.same(daemon.expired, ['maps.1'], 'ten seconds after its end');
  t.match(await daemon.submit('maps.5', 'maps.1'), { replayed: false });
  await daemon.kill();

  await daemon.open({ retentionMs: 10_000 });
  t.equal(await daemon.queue.find('maps.1'), undefined);
  t.match(await daemon.queue.find('maps.5'), { status: 'queued' });
});

t.test('the rerun of a failed run keeps its key', async (t) => {
  const daemon = await new Daemon(t).open();
  await daemon.queue.start(async () => runResult('failed'));
  await daemon.submit('maps.1', 'k');
  await daemon.finished('maps.1');
  const again = { pipelineId: 'maps', idempotency: { caller: 'ci', key: 'k', rerunFailed: true } };
  const admission = await daemon.queue.reserve(again);
  await admission.accept({ runId: 'maps.2', pipelineId: 'maps', staged: null }, digestOf('the same'));
  await daemon.finished('maps.2');
  await daemon.kill();
  await daemon.open();
  t.match(await daemon.submit('maps.3', 'k'), { replayed: true, record: { run_id: 'maps.2' } });
});

t.test('a stop leaves waiting and interrupted runs to the next start', async (t) => {
  const daemon = await new Daemon(t).open();
  for (const id of ['maps.1', 'maps.2']) await daemon.submit(id);
  await daemon.queue.start(
    (_job, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          t.ok(daemon.queue.isInterrupted('maps.1'), 'so that its failure is not reported');
          reject(signal.reason as Error);
        });
      }),
  );
  const waits = daemon.queue.untilFinished('maps.2', new AbortController().signal);
  const closing = daemon.queue.close(1_000);
  await daemon.clock.advance(1_000);
  t.same(await closing, { unfinished: ['maps.1'] });
  await waits;
  await daemon.kill();

  await daemon.open();
  t.match(await daemon.queue.depth(), { queued: 2 });
  await daemon.queue.start(async ({ begunAt }) => {
    t.ok(begunAt, 'its committed files belong to it');
    return runResult('ok');
  });
  for (const id of ['maps.1', 'maps.2']) t.equal((await daemon.finished(id)).status, 'succeeded');
});

for (const [ends, minutes] of [
  [20, 10],
  [100, 9],
] as const)
  t.test(
    `a bundle that ended the process ${ends} times in ${minutes} minutes is rejected and reported`,
    async (t) => {
      const daemon = await new Daemon(t).open();
      for (const id of ['maps.1', 'maps.2']) await daemon.submit(id);
      await daemon.kill();
      const store = await storeIn(daemon.root);
      const [first] = store.journal.runs;
      store.journal.saveChange({ ...first!, begun: ends - 1 });
      await store.close();
      await daemon.clock.advance(minutes * 60_000);
      await daemon.open();
      t.same(daemon.givenUp, []);
      await daemon.queue.start(() => never);
      await daemon.kill();
      await daemon.open();
      t.match(await daemon.queue.find('maps.1'), { status: 'failed', error: { code: 'worker_failed' } });
      t.same(daemon.givenUp, ['maps.1']);
      await daemon.queue.start(async () => runResult('ok'));
      t.equal((await daemon.finished('maps.2')).status, 'succeeded', 'and does not delay the others');
    },
  );

t.test('a run that may have crashed the process repeatedly is published alone', async (t) => {
  const daemon = await new Daemon(t).open();
  for (const id of ['docs.1', 'maps.1', 'docs.2']) await daemon.submit(id);
  await daemon.kill();
  const store = await storeIn(daemon.root);
  const run = store.journal.runs.find(({ job }) => job.runId === 'maps.1') as StoredRun;
  store.journal.saveChange({ ...run, begun: 5 });
  await store.close();
  await daemon.open();
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  await daemon.queue.start(async ({ runId }) => {
    begun.push(runId);
    await new Promise<void>((resolve) => ends.set(runId, resolve));
    return runResult('ok');
  });
  const untilBegun = async (runId: string): Promise<void> => {
    while (!ends.has(runId)) await new Promise((resolve) => setImmediate(resolve));
  };
  await untilBegun('maps.1');
  await daemon.submit('news.1');
  t.match(await daemon.queue.depth(), { queued: 3, running: 1 }, 'no other run starts');
  ends.get('maps.1')?.();
  t.equal((await daemon.finished('maps.1')).status, 'succeeded');
  await untilBegun('news.1');
  t.same(begun, ['maps.1', 'docs.1', 'news.1']);
  for (const runId of ['docs.1', 'docs.2', 'news.1']) {
    await untilBegun(runId);
    ends.get(runId)?.();
    t.equal((await daemon.finished(runId)).status, 'succeeded');
  }
});

t.test('runs that failed before a kill can be repeated after it, with the same bytes', async (t) => {
  const daemon = await new Daemon(t).open();
  await daemon.queue.start(async () => runResult('failed'));
  await daemon.submit('maps.1');
  t.match(await daemon.finished('maps.1'), { status: 'failed', rerunnable: true });
  await daemon.kill();

  await daemon.open();
  t.same(await daemon.queue.bundleUsage(), { bundles: 1, bytes: 0 });
  t.match(await daemon.queue.rerun('maps.1', 'maps.2'), { replayed: false, position: 1 });
  await daemon.queue.start(() => never);
  await daemon.kill();

  const discarded: PublishJob[] = [];
  await daemon.open({ discard: async (job) => void discarded.push(job) });
  t.match(await daemon.queue.find('maps.1'), { status: 'failed', rerunnable: false });
  t.match(await daemon.queue.find('maps.2'), { status: 'queued', rerun_of: 'maps.1' });
  t.match(await daemon.queue.rerun('maps.1', 'maps.3'), { replayed: true, record: { run_id: 'maps.2' } });
  const read: string[] = [];
  await daemon.queue.start(async ({ staged }) => {
    read.push(readFileSync(path.join(staged ?? '', 'files/manifest.json'), 'utf8'));
    return runResult('ok');
  });
  t.match(await daemon.finished('maps.2'), { status: 'succeeded' });
  t.same(read, ['maps.1']);
  await daemon.queue.close(0);
  t.same(discarded, [], 'the bundle belongs to the last of them');
  await daemon.kill();

  await daemon.open();
  t.match(await daemon.queue.find('maps.2'), { status: 'succeeded', rerun_of: 'maps.1' });
  t.match(await daemon.queue.bundleUsage(), { bundles: 1 });
  t.match(await daemon.queue.rerun('maps.1', 'maps.3'), { replayed: true, record: { run_id: 'maps.2' } });
});

t.test('limits of stored bundles apply at the start to those of an earlier process', async (t) => {
  const daemon = await new Daemon(t).open();
  await daemon.queue.start(async () => runResult('failed'));
  for (const id of ['maps.1', 'maps.2', 'maps.3']) {
    await daemon.submit(id);
    await daemon.finished(id);
    await daemon.clock.advance(1_000);
  }
  await daemon.kill();

  const discarded: string[] = [];
  const discard = async ({ runId }: PublishJob) => void discarded.push(runId);
  const keep = { keepMs: 10_000, maxBundles: 2, maxBytes: 1e9 };
  await daemon.open({ discard, keep });
  t.match(await daemon.queue.find('maps.1'), { rerunnable: false });
  await t.rejects(daemon.queue.rerun('maps.1', 'maps.4'), { code: 'bundle_gone' });
  t.same(await daemon.queue.bundleUsage(), { bundles: 2, bytes: 0 });
  await daemon.clock.advance(8_000);
  t.same(await daemon.queue.bundleUsage(), { bundles: 1, bytes: 0 }, 'ten seconds after its end');
  await daemon.queue.close(0);
  t.same(discarded, ['maps.1', 'maps.2']);
});

t.test('removes a bundle only after the journal records that no run needs it', async (t) => {
  let write = (): void => undefined;
  const written = new Promise<void>((resolve) => (write = resolve));
  const discarded: string[] = [];
  const discard = async ({ runId }: PublishJob) => void discarded.push(runId);
  const keep = { keepMs: 60_000, maxBundles: 0, maxBytes: 0 };
  const daemon = await new Daemon(t).open({ maxConcurrency: 1, keep, discard }, (journal) => ({
    ...journal,
    flushed: () => written,
  }));
  await daemon.queue.start(async () => runResult('ok'));
  await daemon.submit('maps.1');
  await daemon.finished('maps.1');
  t.same(discarded, [], 'a process killed now leaves a run that is published again');
  t.same(
    [...daemon.queue.jobs()].map(({ staged }) => typeof staged),
    ['string'],
    'so that it is not swept',
  );
  write();
  await daemon.queue.close(0);
  t.same(discarded, ['maps.1']);
});

t.test('a rerun that cannot be stored leaves the bundle with the failed run', async (t) => {
  const daemon = await new Daemon(t).open();
  await daemon.queue.start(async () => runResult('failed'));
  for (const id of ['maps.1', 'maps.2']) {
    await daemon.submit(id);
    await daemon.finished(id);
    await daemon.clock.advance(1_000);
  }
  await daemon.kill();

  let isFull = true;
  const discarded: string[] = [];
  const discard = async ({ runId }: PublishJob) => void discarded.push(runId);
  await daemon.open({ maxConcurrency: 1, discard }, (journal) => ({
    ...journal,
    saveAccepted: (run) =>
      isFull
        ? Promise.reject(new WaybillError('insufficient_storage', 'the disk of the queue is full'))
        : journal.saveAccepted(run),
  }));
  await daemon.queue.start(async () => runResult('ok'));
  const refused = { code: 'insufficient_storage' };
  await Promise.all([
    t.rejects(daemon.queue.rerun('maps.1', 'maps.3'), refused),
    t.rejects(daemon.queue.rerun('maps.1', 'maps.4'), refused, 'it is not a replay of the failed one'),
  ]);
  t.equal(await daemon.queue.find('maps.3'), undefined);
  t.match(await daemon.queue.find('maps.1'), { status: 'failed', rerunnable: true, rerun_of: null });
  t.match(await daemon.queue.bundleUsage(), { bundles: 2 });
  isFull = false;
  t.match(await daemon.queue.rerun('maps.1', 'maps.5'), { replayed: false });
  t.match(await daemon.finished('maps.5'), { status: 'succeeded', rerun_of: 'maps.1' });
  t.match(await daemon.queue.bundleUsage(), { bundles: 2 });
  await daemon.queue.close(0);
  t.same(discarded, []);
});

t.test('a pause survives a kill, until it is resumed', async (t) => {
  const daemon = await new Daemon(t).open();
  await daemon.submit('maps.1');
  const pause = await daemon.queue.pause('maps', 'the disk is being changed');
  await daemon.queue.pause('docs', null);
  await daemon.queue.resume('docs');
  await daemon.kill();
  await daemon.open();
  t.same(await daemon.queue.pauses(), new Map([['maps', pause]]));
  await daemon.queue.start(async () => runResult('ok'));
  t.match(await daemon.queue.depth(), { queued: 1, running: 0 });
  await daemon.queue.resume('maps');
  t.equal((await daemon.finished('maps.1')).status, 'succeeded');
});

t.test('does not repeat the notification of a run after a kill', async (t) => {
  const daemon = await new Daemon(t).open();
  await daemon.submit('maps.1');
  await daemon.queue.start(() => never);
  t.ok(daemon.queue.markReported('maps.1', 'published web'));
  await daemon.kill();
  await daemon.open();
  t.notOk(daemon.queue.markReported('maps.1', 'published web'));
  t.ok(daemon.queue.markReported('maps.1', 'published mirror'));
  t.ok(daemon.queue.markReported('maps.9', 'published web'), 'nothing is known about an unknown run');
});

t.test('an upload whose staged bundle is missing is rejected, and others are not', async (t) => {
  const daemon = await new Daemon(t).open();
  const staging = path.join(daemon.root, 'staging');
  const admissions = await Promise.all(['a', 'b'].map((pipelineId) => daemon.queue.reserve({ pipelineId })));
  const whole = await newUploadDirectory(staging);
  const accepts = [path.join(staging, 'upload-0000000000000000'), whole].map((staged, index) => {
    const pipelineId = index === 0 ? 'a' : 'b';
    return admissions[index]!.accept(
      { runId: `${pipelineId}.1`, pipelineId, staged, bundlePath: '.' },
      digestOf('x'),
    );
  });
  const [lost, kept] = await Promise.allSettled(accepts);
  t.match(lost, { status: 'rejected', reason: { code: 'ENOENT' } });
  t.match(kept, { status: 'fulfilled', value: { replayed: false } });
  t.equal(await daemon.queue.find('a.1'), undefined);
  t.match(await daemon.queue.depth(), { reserved: 0, queued: 1 });
  await daemon.kill();
  await daemon.open();
  t.equal(await daemon.queue.find('a.1'), undefined);
});

t.test('keeps undelivered events in order after a kill', async (t) => {
  const daemon = await new Daemon(t).open();
  const eventOf = (id: string) => ({
    id,
    timestamp: '2026-11-20T02:04:34.000Z',
    type: 'notifier.test' as const,
    data: { notifier_id: 'hook', message: 'a test' },
  });
  const trace = {
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    tracestate: 'a=1',
  };
  for (const id of ['msg_1', 'msg_2', 'msg_3'])
    daemon.store.outbox.store({ event: eventOf(id), ...trace }, ['hook'], (_notifierId, ended) => {
      if (id === 'msg_2') ended();
    });
  const left = (): AbandonedEvent[] => {
    const found: AbandonedEvent[] = [];
    daemon.store.outbox.open((one) => found.push(one));
    return found;
  };
  await daemon.kill();
  await daemon.open();
  t.same(
    left().map(({ notifierId, event, traceparent, tracestate }) => ({
      notifierId,
      event,
      traceparent,
      tracestate,
    })),
    ['msg_1', 'msg_3'].map((id) => ({ notifierId: 'hook', event: eventOf(id), ...trace })),
  );
  for (const { onEnd } of left()) onEnd();
  await daemon.kill();
  await daemon.open();
  t.same(left(), []);
});

t.test('the staging directory may be moved while the daemon is down', async (t) => {
  const daemon = await new Daemon(t).open();
  await daemon.submit('maps.1');
  await daemon.kill();
  const elsewhere = path.join(daemon.root, 'elsewhere');
  renameSync(path.join(daemon.root, 'staging'), elsewhere);
  const store = await storeIn(daemon.root, { staging: elsewhere });
  const [run] = store.journal.runs;
  await store.close();
  t.same(path.dirname(run?.job.staged ?? ''), elsewhere);
  t.same(readdirSync(elsewhere), [path.basename(run?.job.staged ?? '')]);
});

t.test('keeps schedule decisions after a kill, and catches up missed ticks once', async (t) => {
  const daemon = await new Daemon(t).open();
  const decide = (runId: string, trigger: Trigger) =>
    daemon.queue.triggers.decide({ runId, pipelineId: 'maps', staged: null, trigger });
  const tick = (at: string): Trigger => ({ kind: 'schedule', tick: at, schedule: '0 * * * * UTC' });
  const change: Trigger = { kind: 'watch', state: 'A' };
  t.match(await decide('maps.1', tick('2026-11-20T01:00:00.000Z')), { outcome: 'started' });
  t.match(await decide('maps.2', tick('2026-11-20T02:00:00.000Z')), { outcome: 'coalesced' });
  t.match(await decide('maps.3', change), { outcome: 'coalesced' });
  await daemon.kill();

  await daemon.open();
  t.match(await daemon.queue.find('maps.1'), {
    status: 'queued',
    triggered_by: { kind: 'schedule', tick: '2026-11-20T01:00:00.000Z' },
  });
  t.same(await decide('maps.4', tick('2026-11-20T02:00:00.000Z')), { outcome: 'known' });
  t.same(await decide('maps.5', change), { outcome: 'known' });
  await daemon.queue.start(async () => runResult('ok'));
  await daemon.finished('maps.1');

  // It is 02:04. The next daemon starts at 08:04.
  await daemon.kill();
  for (const [catchUp, started] of [
    ['once', 1],
    ['none', 0],
  ] as const) {
    await daemon.clock.advance(6 * 3_600_000);
    await daemon.open();
    const tally = newTally();
    const scheduler = openScheduler(daemon.queue, daemon.clock, [scheduled('0 * * * *', { catchUp })], tally);
    await until(
      () => tally.counts['missed down'],
      (count) => count !== undefined,
    );
    t.same(tally.counts, { ...(started === 1 ? { started } : {}), 'missed down': 6 - started }, catchUp);
    await scheduler.close();
    await daemon.kill();
  }
});

t.test('a tick whose run was stored counts as decided, even if its mark was not', async (t) => {
  const trigger: Trigger = { kind: 'schedule', tick: '2026-11-20T02:00:00.000Z', schedule: '0 * * * * UTC' };
  const job: PublishJob = { runId: 'maps.1', pipelineId: 'maps', staged: null, trigger };
  const record = queuedRun(acceptedRun(job, new Date(0)), new Date(0));
  const run: StoredRun = {
    job,
    record,
    key: null,
    position: 1,
    bundle: 'none',
    rerunAs: null,
    begun: 0,
    begunAt: null,
    reported: [],
  };
  const earlier: Trigger = { ...trigger, tick: '2026-11-20T01:00:00.000Z' };
  const queue = memoryQueue({
    clock: manualClock(),
    log: silentLog,
    queueSize: 10,
    maxConcurrency: 10,
    retentionMs: 60_000,
    journal: {
      ...noJournal,
      isDurable: true,
      runs: [run],
      triggers: [{ pipelineId: 'maps', trigger: earlier }],
    },
    onExpire: async () => undefined,
  });
  t.same(await queue.triggers.last('maps', 'schedule'), trigger);
  t.same(await queue.triggers.decide({ ...job, runId: 'maps.2', staged: null, trigger }), {
    outcome: 'known',
  });
  await queue.close(0);
});
