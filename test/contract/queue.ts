import type { Test } from 'tap';
import { digestOf } from '../../src/core/lib/digest.ts';
import { WaybillError } from '../../src/core/lib/errors.ts';
import { type ActionResult, countActions, type RunResult } from '../../src/core/publish/results/result.ts';
import type { RetentionLimits } from '../../src/workers/queue/bundle-retention.ts';
import type { JobResult, PublishJob, StagedJob } from '../../src/workers/queue/job.ts';
import type {
  AcceptedRun,
  Idempotency,
  JobProcessor,
  JobQueue,
  RunQuery,
} from '../../src/workers/queue/job-queue.ts';
import type { RunWatch } from '../../src/workers/queue/run-changes.ts';
import type { RunPage } from '../../src/workers/queue/run-filter.ts';
import {
  type DeliveryNote,
  maxFailedDeliveries,
  type RunRecord,
} from '../../src/workers/queue/run-record.ts';
import type { RetrySettingsOf } from '../../src/workers/queue/run-retry.ts';
import { retryContract } from './retries.ts';
import { triggerContract } from './triggers.ts';

export interface QueueSettings {
  queueSize: number;
  maxConcurrency: number;
  retentionMs: number;
  maxWaitingOf: (pipelineId: string) => number | null;
  onExpire: (job: PublishJob) => Promise<void>;
  discard: (job: PublishJob) => Promise<void>;
  keep: RetentionLimits;
  /** By default, failed runs are not retried. */
  retries?: RetrySettingsOf;
}

/** An implementation provides a new queue, and a way to advance time for it. */
export interface QueueHarness {
  queue: JobQueue;
  /** Advances at least `ms` milliseconds and runs everything due in that time. */
  elapse: (ms: number) => Promise<void>;
  /**
   * Whether waiting runs are still available to others when this queue has closed. If not, it runs them
   * first if there is time.
   */
  waitingSurvives: boolean;
}

/** The contract of `JobQueue`, which every implementation passes. */
export function queueContract(t: Test, open: (settings: QueueSettings) => Promise<QueueHarness>): void {
  const start = async (t: Test, settings: Partial<QueueSettings> = {}) => {
    const expired: string[] = [];
    const discarded: string[] = [];
    const harness = await open({
      queueSize: 10,
      maxConcurrency: 10,
      retentionMs: 60_000,
      maxWaitingOf: () => null,
      keep: { keepMs: 60_000, maxBundles: 100, maxBytes: 1e9 },
      onExpire: async (job) => void expired.push(job.runId),
      discard: async (job) => void discarded.push(job.runId),
      ...settings,
    });
    t.teardown(() => harness.queue.close(0));
    return { ...harness, expired, discarded };
  };

  t.test('a run goes from accepted over queued and running to succeeded', async (t) => {
    const { queue } = await start(t);
    const { record } = await submit(queue, 'maps.1');
    t.match(record, { run_id: 'maps.1', pipeline_id: 'maps', status: 'accepted', error: null });
    t.match(await queue.find('maps.1'), { status: 'queued', started_at: null });
    t.same(await queue.depth(), { reserved: 0, queued: 1, running: 0 });

    const workers = gatedWorkers();
    await queue.start(workers.process);
    await workers.started('maps.1');
    t.match(await queue.find('maps.1'), { status: 'running', finished_at: null, summary: null });
    t.same(await queue.depth(), { reserved: 0, queued: 0, running: 1 });

    workers.finish('maps.1', runResult('ok'));
    const done = await finished(queue, 'maps.1');
    t.match(done, { status: 'succeeded', progress: null, error: null, summary: { publish_new: 1 } });
    t.match(done.destinations, [
      {
        destination_id: 'web',
        action: 'publish_new',
        destination_path: 'session-1',
        outputs_written: 2,
        outputs_kept: 5,
      },
    ]);
    for (const at of [done.accepted_at, done.queued_at, done.started_at, done.finished_at])
      t.ok(Date.parse(at ?? ''), 'has a time');
  });

  t.test('delivery results are in the record, during the run and afterwards', async (t) => {
    const { queue } = await start(t);
    await submit(queue, 'maps.1');
    const workers = gatedWorkers();
    await queue.start(workers.process);
    const { onProgress } = await workers.started('maps.1');
    const note = deliveryNote('msg_1');
    await queue.noteDelivery('maps.1', note);
    await queue.noteDelivery('maps.1', { ...deliveryNote('msg_2'), status: 'delivered', reason: null });
    const first = {
      notifier_id: 'hook',
      event_id: 'msg_1',
      event_type: 'bundle.published',
      status: 'retrying',
      tries: 1,
      last_error: 'the receiver answered 503',
      next_try_at: '2026-11-20T02:04:35.000Z',
      updated_at: '2026-11-20T02:04:34.000Z',
    };
    t.match(await queue.find('maps.1'), { failed_deliveries: [first], failed_deliveries_omitted: 0 });
    onProgress({ type: 'bytes', destinationId: 'web', count: 10 });
    workers.finish('maps.1', runResult('ok'));
    const done = await finished(queue, 'maps.1');
    t.same(
      done.failed_deliveries,
      [first],
      'an immediate delivery is not a failure; the end keeps recorded notes',
    );
    await queue.noteDelivery('maps.1', { ...note, status: 'given_up', tries: 4, nextTryAt: null });
    const again = { ...note, status: 'delivered', tries: 2, isMore: true, nextTryAt: null } as const;
    await queue.noteDelivery('maps.1', { ...again, reason: null });
    const delivered = { ...first, status: 'delivered', tries: 6, next_try_at: null };
    t.same((await queue.find('maps.1'))?.failed_deliveries, [delivered]);
    t.same((await queue.list(['maps'], { limit: 1 })).runs[0]?.failed_deliveries, [delivered]);
    await queue.noteDelivery('maps.unknown', note);
    t.equal(await queue.find('maps.unknown'), undefined);
  });

  t.test(
    'stores at most the maximum number of delivery records and counts the rest, whatever their errors',
    async (t) => {
      const { queue } = await start(t);
      await submit(queue, 'maps.1');
      const reason = '"failed_deliveries":[],"failed_deliveries_omitted":7}';
      for (let index = 0; index < maxFailedDeliveries + 3; index += 1)
        await queue.noteDelivery('maps.1', { ...deliveryNote(`msg_${index}`), reason });
      const full = await queue.find('maps.1');
      t.equal(full?.failed_deliveries.length, maxFailedDeliveries);
      t.equal(full?.failed_deliveries_omitted, 3);
      t.equal(full?.failed_deliveries[0]?.last_error, reason);
      await queue.start(async () => runResult('ok'));
      const ended = await finished(queue, 'maps.1');
      t.same(ended.failed_deliveries, full?.failed_deliveries);
      t.match(ended, { status: 'succeeded', failed_deliveries_omitted: 3 });
    },
  );

  t.test('a later change of an older run does not make it the last that succeeded', async (t) => {
    const { queue } = await start(t);
    await queue.start(async () => runResult('ok'));
    for (const id of ['maps.1', 'maps.2']) {
      await submit(queue, id);
      await finished(queue, id);
    }
    await queue.noteDelivery('maps.1', deliveryNote('msg_1'));
    t.match(await queue.overview(['maps']), [{ lastSuccess: { run_id: 'maps.2' } }]);
  });

  t.test('the record of a run has its trace', async (t) => {
    const { queue } = await start(t);
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const admission = await queue.reserve({ pipelineId: 'maps' });
    await admission.accept({ ...jobOf('maps.1'), traceparent }, digestOf('{}'));
    await submit(queue, 'maps.2');
    t.equal((await queue.find('maps.1'))?.trace_id, '0af7651916cd43dd8448eb211c80319c');
    t.equal((await queue.find('maps.2'))?.trace_id, null);
  });

  t.test('a failed destination fails the run and is in its record', async (t) => {
    const { queue } = await start(t);
    await queue.start(async () => runResult('failed'));
    await submit(queue, 'maps.1');
    t.match(await finished(queue, 'maps.1'), {
      status: 'failed',
      error: null,
      destinations: [
        { destination_id: 'web', action: 'fail_unmanaged', error: { code: 'unmanaged_content' } },
      ],
    });
  });

  t.test('a worker that throws fails the run with its error', async (t) => {
    const { queue } = await start(t);
    await queue.start(async () => {
      throw new WaybillError('worker_failed', 'the worker thread crashed');
    });
    await submit(queue, 'maps.1');
    t.match(await finished(queue, 'maps.1'), {
      status: 'failed',
      error: { code: 'worker_failed', retryable: true },
    });
  });

  t.test(
    'notifies the observer of each run once when it starts and once when its end is recorded',
    async (t) => {
      const { queue } = await start(t);
      const [begun, ended]: [string[], unknown[]] = [[], []];
      const outcomes: Record<string, () => JobResult> = {
        maps: () => runResult('ok'),
        docs: () => runResult('failed'),
        a: () => {
          throw new WaybillError('worker_failed', 'the worker thread crashed');
        },
      };
      await queue.start(async ({ pipelineId }) => outcomes[pipelineId]!(), {
        started: ({ pipelineId, waitedSeconds }) => {
          t.ok(waitedSeconds >= 0 && waitedSeconds < 600);
          begun.push(pipelineId);
        },
        retried: () => t.fail('nothing is retried'),
        superseded: () => undefined,
        rejected: () => undefined,
        finished: ({ pipelineId, seconds, succeeded, cancelled, result }) => {
          t.ok(seconds >= 0 && seconds < 600);
          t.notOk(cancelled);
          ended.push([pipelineId, succeeded, result]);
        },
      });
      const pipelines = Object.keys(outcomes);
      for (const pipeline of pipelines) await submit(queue, `${pipeline}.1`);
      for (const pipeline of pipelines) await finished(queue, `${pipeline}.1`);
      await until(
        async () => ended,
        ({ length }) => length === pipelines.length,
      );
      t.same(begun.toSorted(), ['a', 'docs', 'maps']);
      t.same(
        new Set(ended),
        new Set([
          ['maps', true, runResult('ok')],
          ['docs', false, runResult('failed')],
          ['a', false, null],
        ]),
      );
    },
  );

  t.test('progress shows while the run is running', async (t) => {
    const { queue } = await start(t);
    const workers = gatedWorkers();
    await queue.start(workers.process);
    await submit(queue, 'maps.1');
    const { onProgress } = await workers.started('maps.1');
    t.match(await queue.find('maps.1'), {
      status: 'running',
      progress: { stage: 'preparing', outputs_total: 0 },
    });
    onProgress({
      type: 'planned',
      destinationId: 'web',
      destinationPath: '.',
      action: 'publish_new',
      outputs: 2,
      bytes: 30,
    });
    onProgress({ type: 'bytes', destinationId: 'web', count: 10 });
    onProgress({ type: 'bytes', destinationId: 'web', count: 5 });
    onProgress({ type: 'output', destinationId: 'web', path: 'a.txt' });
    const shown = await until(
      () => queue.find('maps.1'),
      (record) => record?.progress?.outputs_done === 1,
    );
    const counts = { outputs_done: 1, outputs_total: 2, bytes_done: 15, bytes_total: 30 };
    t.same(shown?.progress, {
      ...{ stage: 'writing', ...counts },
      destinations: [{ destination_id: 'web', ...counts }],
    });
    onProgress({ type: 'output', destinationId: 'web', path: 'b.txt' });
    await until(
      () => queue.find('maps.1'),
      (record) => record?.progress?.stage === 'committing',
    );
    onProgress({ type: 'done', destinationId: 'web', result: actionResult('publish_new') });
    await until(
      () => queue.find('maps.1'),
      (record) => record?.destinations.length === 1,
    );
    workers.finish('maps.1', runResult('ok'));
    t.equal(
      (await finished(queue, 'maps.1')).destinations.length,
      1,
      'the result replaces the reported progress',
    );
  });

  t.test(
    'one pipeline runs one job at a time, in the order of acceptance, without delaying others',
    async (t) => {
      const { queue } = await start(t, { maxConcurrency: 3 });
      const workers = gatedWorkers();
      await queue.start(workers.process);
      for (const id of ['maps.1', 'maps.2', 'maps.3', 'docs.1']) await submit(queue, id);
      await workers.started('maps.1');
      await workers.started('docs.1');
      t.same(await queue.depth(), { reserved: 0, queued: 2, running: 2 });
      for (const id of ['maps.1', 'maps.2', 'maps.3']) {
        await workers.started(id);
        workers.finish(id, runResult('ok'));
      }
      workers.finish('docs.1', runResult('ok'));
      await finished(queue, 'maps.3');
      t.same(
        workers.order.filter((id) => id.startsWith('maps')),
        ['maps.1', 'maps.2', 'maps.3'],
      );
      t.equal(workers.most('maps'), 1, 'never two of one pipeline concurrently');
    },
  );

  t.test('max_concurrency limits the total number of jobs of all pipelines', async (t) => {
    const { queue } = await start(t, { maxConcurrency: 2 });
    const workers = gatedWorkers();
    await queue.start(workers.process);
    const ids = ['a.1', 'b.1', 'c.1', 'd.1', 'e.1'];
    for (const id of ids) await submit(queue, id);
    await until(
      async () => workers.order,
      (order) => order.length === 2,
    );
    const ends = ids.map(async (id) => {
      await workers.started(id);
      workers.finish(id, runResult('ok'));
      return finished(queue, id);
    });
    for (const { status } of await Promise.all(ends)) t.equal(status, 'succeeded');
    t.equal(workers.most(), 2);
  });

  t.test('a stalled run leaves a slot for other pipelines', async (t) => {
    const { queue } = await start(t, { maxConcurrency: 2 });
    const workers = gatedWorkers();
    await queue.start(workers.process);
    for (const id of ['a.1', 'a.2', 'a.3']) await submit(queue, id);
    await workers.started('a.1');
    for (const id of ['docs.1', 'maps.1']) {
      await submit(queue, id);
      await workers.started(id);
      workers.finish(id, runResult('ok'));
      t.match(await finished(queue, id), { status: 'succeeded' });
    }
    t.same(workers.order, ['a.1', 'docs.1', 'maps.1']);
    for (const id of ['a.1', 'a.2', 'a.3']) {
      await workers.started(id);
      workers.finish(id, runResult('ok'));
    }
    await finished(queue, 'a.3');
  });

  t.test('pipelines take turns, so that a busy one does not delay another', async (t) => {
    const { queue } = await start(t, { maxConcurrency: 1 });
    const workers = gatedWorkers();
    const busy = ['b.1', 'b.2', 'b.3', 'b.4', 'b.5'];
    for (const id of [...busy, 'docs.1']) await submit(queue, id);
    await queue.start(workers.process);
    for (let count = 1; count <= 6; count += 1) {
      const order = await until(
        async () => workers.order,
        ({ length }) => length === count,
      );
      workers.finish(order[count - 1] ?? '', runResult('ok'));
    }
    await finished(queue, 'b.5');
    t.ok(workers.order.indexOf('docs.1') <= 2, workers.order.join(' '));
    t.same(
      workers.order.filter((id) => id !== 'docs.1'),
      busy,
    );
  });

  t.test('slots: reserved and queued uploads are limited, and a released slot is free again', async (t) => {
    const { queue } = await start(t, { queueSize: 2 });
    const first = await queue.reserve({ pipelineId: 'maps' });
    await submit(queue, 'maps.1');
    t.same(await queue.depth(), { reserved: 1, queued: 1, running: 0 });
    await t.rejects(queue.reserve({ pipelineId: 'maps' }), { code: 'queue_full' });
    await first.release();
    await first.release();
    await submit(queue, 'maps.2');
    await t.rejects(
      queue.reserve({ pipelineId: 'docs' }),
      { code: 'queue_full' },
      'a second release frees nothing',
    );
  });

  t.test(
    "returns the position in the pipeline's queue; a replay returns the first response's position",
    async (t) => {
      const { queue } = await start(t);
      const key = { caller: 'ci', key: 'k1' };
      const places: (number | null)[] = [];
      for (const id of ['maps.1', 'docs.1', 'maps.2', 'maps.3'])
        places.push((await submit(queue, id, id === 'maps.3' ? { key, manifest: 'A' } : {})).position);
      t.same(places, [1, 1, 2, 3]);
      const workers = gatedWorkers();
      await queue.start(workers.process);
      await workers.started('maps.1');
      await workers.started('docs.1');
      t.equal((await submit(queue, 'docs.2')).position, 1, 'running jobs are not in the queue');
      t.equal((await submit(queue, 'maps.4')).position, 3);
      t.match(await submit(queue, 'maps.5', { key, manifest: 'A' }), { replayed: true, position: 3 });
      for (const id of ['maps.1', 'docs.1', 'maps.2', 'maps.3', 'docs.2', 'maps.4']) {
        workers.finish(id, runResult('ok'));
        await finished(queue, id);
      }
      t.equal((await submit(queue, 'maps.6')).position, 1);
      workers.finish('maps.6', runResult('ok'));
      await finished(queue, 'maps.6');
    },
  );

  t.test('a full queue returns the estimated time until its waiting runs are done', async (t) => {
    const { queue, elapse } = await start(t, { queueSize: 20, maxConcurrency: 1 });
    const refusal = async (): Promise<number> => {
      const error: unknown = await queue.reserve({ pipelineId: 'maps' }).catch((thrown: unknown) => thrown);
      t.match(error, { code: 'queue_full' });
      return error instanceof WaybillError ? (error.retryAfterSeconds ?? NaN) : NaN;
    };
    const workers = gatedWorkers();
    const fill = () => Promise.all(Array.from({ length: 20 }, () => queue.reserve({ pipelineId: 'docs' })));
    const held = await fill();
    t.equal(await refusal(), 10, 'without a measurement');
    await Promise.all(held.map((admission) => admission.release()));
    await queue.start(workers.process);
    for (const id of ['maps.1', 'maps.2']) {
      await submit(queue, id);
      await workers.started(id);
      await elapse(1_000);
      workers.finish(id, runResult('ok'));
      await finished(queue, id);
    }
    const late = await fill();
    const seconds = await refusal();
    t.ok(seconds >= 20 && seconds <= 300, `twenty waiting runs, at least a second each: ${seconds}`);
    await Promise.all(late.map((admission) => admission.release()));
  });

  t.test('one pipeline can have no more than its share of the slots', async (t) => {
    const maxWaitingOf = (pipelineId: string) => (pipelineId === 'maps' ? 2 : null);
    const { queue } = await start(t, { queueSize: 4, maxWaitingOf });
    const key = { caller: 'ci', key: 'k1' };
    await submit(queue, 'maps.1', { key, manifest: 'A' });
    const received = await queue.reserve({ pipelineId: 'maps' });
    await t.rejects(queue.reserve({ pipelineId: 'maps' }), {
      code: 'pipeline_full',
      retryable: true,
      retryAfterSeconds: 10,
    });
    t.match(await submit(queue, 'maps.2', { key, manifest: 'A' }), { replayed: true }, 'a replay needs none');
    const others = [await queue.reserve({ pipelineId: 'docs' }), await queue.reserve({ pipelineId: 'docs' })];
    await t.rejects(queue.reserve({ pipelineId: 'docs' }), { code: 'queue_full' }, 'others have the rest');
    await Promise.all(others.map((admission) => admission.release()));
    await received.release();
    await received.release();
    await submit(queue, 'maps.3');
    await t.rejects(queue.reserve({ pipelineId: 'maps' }), { code: 'pipeline_full' });
    await queue.pause('maps', null);
    await t.rejects(queue.reserve({ pipelineId: 'maps' }), { code: 'pipeline_full', retryAfterSeconds: 300 });
    await queue.resume('maps');
    const workers = gatedWorkers();
    await queue.start(workers.process);
    await workers.started('maps.1');
    await submit(queue, 'maps.4');
    await t.rejects(
      queue.reserve({ pipelineId: 'maps' }),
      { code: 'pipeline_full' },
      'running jobs do not count',
    );
    for (const id of ['maps.1', 'maps.3', 'maps.4']) {
      workers.finish(id, runResult('ok'));
      await finished(queue, id);
    }
    t.same(await queue.depth(), { reserved: 0, queued: 0, running: 0 });
  });

  t.test('a paused pipeline accepts runs, and starts none until it is resumed', async (t) => {
    const { queue } = await start(t);
    const workers = gatedWorkers();
    await queue.start(workers.process);
    t.same(await queue.pauses(), new Map());
    await submit(queue, 'maps.1');
    await workers.started('maps.1');
    const { since, reason } = await queue.pause('maps', 'the "disk" is full');
    t.equal(reason, 'the "disk" is full');
    t.ok(Date.parse(since));
    for (const id of ['maps.2', 'maps.3', 'docs.1']) await submit(queue, id);
    await workers.started('docs.1');
    workers.finish('maps.1', runResult('ok'));
    t.equal((await finished(queue, 'maps.1')).status, 'succeeded', 'running jobs continue');
    workers.finish('docs.1', runResult('ok'));
    await finished(queue, 'docs.1');
    t.same(await queue.depth(), { reserved: 0, queued: 2, running: 0 });
    t.same(await queue.pause('maps', null), { since, reason: null }, 'paused since then');
    t.same(await queue.pauses(), new Map([['maps', { since, reason: null }]]));
    t.match(await queue.find('maps.2'), { status: 'queued' });
    t.equal(await queue.resume('maps'), true);
    t.equal(await queue.resume('maps'), false);
    t.same(await queue.pauses(), new Map());
    for (const id of ['maps.2', 'maps.3']) {
      await workers.started(id);
      workers.finish(id, runResult('ok'));
      await finished(queue, id);
    }
    t.same(workers.order, ['maps.1', 'docs.1', 'maps.2', 'maps.3']);
  });

  t.test('closes without waiting for paused pipelines', async (t) => {
    const { queue, waitingSurvives } = await start(t);
    const workers = gatedWorkers();
    await queue.start(workers.process);
    await queue.pause('maps', null);
    await submit(queue, 'maps.1');
    t.same(await queue.close(3_600_000), { unfinished: waitingSurvives ? [] : ['maps.1'] });
    t.same(workers.order, []);
  });

  t.test('cancels a waiting run, which never starts', async (t) => {
    const { queue, discarded } = await start(t);
    const workers = gatedWorkers();
    await queue.start(workers.process);
    const key = { caller: 'ci', key: 'k1' };
    await submit(queue, 'maps.1');
    await workers.started('maps.1');
    await submit(queue, 'maps.2', { key, manifest: 'A' });
    await submit(queue, 'maps.3');
    const over = queue.untilFinished('maps.2', new AbortController().signal);
    const { outcome, record } = await queue.cancel('maps.2');
    t.equal(outcome, 'forgotten');
    t.match(record, {
      run_id: 'maps.2',
      status: 'failed',
      started_at: null,
      progress: null,
      error: { code: 'cancelled', retryable: false },
    });
    t.ok(Date.parse(record.finished_at ?? ''));
    await over;
    t.same(await queue.find('maps.2'), record);
    t.same(await queue.cancel('maps.2'), { outcome: 'repeated', record }, 'a second call changes nothing');
    t.same(await queue.depth(), { reserved: 0, queued: 1, running: 1 });
    await until(
      async () => discarded,
      ({ length }) => length > 0,
    );
    t.same(discarded, ['maps.2']);
    t.match(await submit(queue, 'maps.4', { key, manifest: 'A' }), { replayed: true, record });
    const again = { ...key, rerunFailed: true };
    t.match(await submit(queue, 'maps.5', { key: again, manifest: 'A' }), { replayed: false });
    for (const id of ['maps.1', 'maps.3', 'maps.5']) {
      workers.finish(id, runResult('ok'));
      t.equal((await finished(queue, id)).status, 'succeeded');
    }
    t.same(workers.order, ['maps.1', 'maps.3', 'maps.5']);
    t.equal(discarded[0], 'maps.2');
    await t.rejects(queue.cancel('maps.1'), { code: 'run_finished', retryable: false });
    await t.rejects(queue.cancel('maps.9'), { code: 'run_not_found' });
  });

  t.test('cancels a running run, reports it as cancelled and starts the next one', async (t) => {
    const { queue, discarded } = await start(t);
    const workers = gatedWorkers();
    const ended: unknown[] = [];
    await queue.start(workers.process, {
      started: () => undefined,
      retried: () => t.fail('nothing is retried'),
      superseded: () => undefined,
      rejected: () => undefined,
      finished: ({ succeeded, cancelled, result }) => void ended.push({ succeeded, cancelled, result }),
    });
    await submit(queue, 'maps.1');
    await submit(queue, 'maps.2');
    const { signal, onProgress } = await workers.started('maps.1');
    onProgress({ type: 'done', destinationId: 'web', result: actionResult('publish_new') });
    t.match(await queue.cancel('maps.1'), { outcome: 'stopping', record: { status: 'running' } });
    const record = await finished(queue, 'maps.1');
    t.match(signal.reason, { code: 'cancelled' });
    t.match(record, { status: 'failed', progress: null, error: { code: 'cancelled' } });
    t.equal(record.destinations.length, 1, 'the partial result is reported');
    t.same(await queue.cancel('maps.1'), { outcome: 'repeated', record });
    await workers.started('maps.2');
    workers.finish('maps.2', runResult('ok'));
    t.equal((await finished(queue, 'maps.2')).status, 'succeeded');
    await until(
      async () => ended,
      ({ length }) => length === 2,
    );
    t.same(ended, [
      { succeeded: false, cancelled: true, result: null },
      { succeeded: true, cancelled: false, result: runResult('ok') },
    ]);
    await until(
      async () => discarded,
      ({ length }) => length > 0,
    );
    t.equal(discarded[0], 'maps.1');
  });

  t.test('a cancelled run that still returns fails with its destinations, or succeeds', async (t) => {
    const { queue } = await start(t);
    const deaf = new Map<string, (result: JobResult) => void>();
    await queue.start(({ runId }) => new Promise((resolve) => deaf.set(runId, resolve)));
    for (const [id, outcome] of [
      ['maps.1', 'failed'],
      ['docs.1', 'ok'],
    ] as const) {
      await submit(queue, id);
      await until(
        async () => deaf.has(id),
        (isThere) => isThere,
      );
      t.match(await queue.cancel(id), { outcome: 'stopping' });
      t.match(await queue.cancel(id), { outcome: 'stopping' }, 'it is still running');
      deaf.get(id)?.(runResult(outcome));
    }
    t.match(await finished(queue, 'maps.1'), {
      status: 'failed',
      error: { code: 'cancelled' },
      destinations: [{ error: { code: 'unmanaged_content' } }],
      summary: { failed_destinations: 1 },
    });
    t.match(await finished(queue, 'docs.1'), { status: 'succeeded', error: null });
    await t.rejects(queue.cancel('docs.1'), { code: 'run_finished' });
  });

  t.test('repeats a run with its staged files, once', async (t) => {
    const { queue, discarded } = await start(t);
    const workers = gatedWorkers();
    const jobs: PublishJob[] = [];
    await queue.start((job, context) => {
      jobs.push(job);
      return workers.process(job, context);
    });
    await submit(queue, 'maps.1');
    await t.rejects(queue.rerun('maps.1', 'maps.2'), { code: 'run_not_finished', retryable: true });
    await t.rejects(queue.rerun('maps.9', 'maps.2'), { code: 'run_not_found' });
    workers.finish('maps.1', runResult('failed'));
    const failed = await finished(queue, 'maps.1');
    t.match(failed, { rerun_of: null, rerunnable: true });
    const again = await queue.rerun('maps.1', 'maps.2');
    t.match(again, { replayed: false, position: 1 });
    t.match(again.record, { run_id: 'maps.2', pipeline_id: 'maps', rerun_of: 'maps.1', status: 'accepted' });
    const repeated = await queue.rerun('maps.1', 'maps.3');
    t.match(repeated, { replayed: true, position: 1, record: { run_id: 'maps.2', rerun_of: 'maps.1' } });
    t.equal(await queue.find('maps.3'), undefined);
    await workers.started('maps.2');
    t.same(jobs[1], { ...jobs[0], runId: 'maps.2', rerunOf: 'maps.1' }, 'exactly the same bytes');
    t.match(await queue.find('maps.2'), { rerunnable: false }, 'it has not ended');
    t.same(await queue.find('maps.1'), { ...failed, rerunnable: false }, 'the failure stays visible');
    t.same(discarded, [], 'the bundle belongs to the other run');
    workers.finish('maps.2', runResult('failed'));
    await finished(queue, 'maps.2');
    t.match(await queue.rerun('maps.2', 'maps.4'), { replayed: false, record: { rerun_of: 'maps.2' } });
    workers.finish('maps.4', runResult('ok'));
    await finished(queue, 'maps.4');
    t.match(await queue.find('maps.4'), { status: 'succeeded', rerunnable: true });
    t.match(await queue.bundleUsage(), { bundles: 1 }, 'as long as the record');
    t.match(await queue.rerun('maps.2', 'maps.5'), { replayed: true, record: { run_id: 'maps.4' } });
    // A waiting run, because a run that has started keeps its bundle when it is cancelled.
    await queue.pause('maps', null);
    await submit(queue, 'maps.6');
    await queue.cancel('maps.6');
    await until(
      async () => discarded,
      (ids) => ids.length > 0,
    );
    t.same(discarded, ['maps.6'], 'the staged files of a cancelled run are discarded');
    t.match(await queue.find('maps.6'), { rerunnable: false });
    await t.rejects(queue.rerun('maps.6', 'maps.7'), { code: 'bundle_gone', retryable: false });
  });

  t.test('a rerun needs a slot like any run, and is rejected while the queue drains', async (t) => {
    const maxWaitingOf = (id: string) => (id === 'docs' ? 1 : null);
    const { queue } = await start(t, { queueSize: 2, maxWaitingOf });
    await queue.start(async () => runResult('failed'));
    for (const id of ['maps.1', 'docs.1']) {
      await submit(queue, id);
      await finished(queue, id);
    }
    const held = await queue.reserve({ pipelineId: 'docs' });
    await t.rejects(queue.rerun('docs.1', 'docs.2'), { code: 'pipeline_full' });
    const other = await queue.reserve({ pipelineId: 'maps' });
    await t.rejects(queue.rerun('maps.1', 'maps.2'), { code: 'queue_full' });
    await Promise.all([held.release(), other.release()]);
    t.match(
      await queue.rerun('maps.1', 'maps.2'),
      { replayed: false },
      'a refusal does not affect the bundle',
    );
    await finished(queue, 'maps.2');
    queue.drain();
    await t.rejects(queue.rerun('maps.2', 'maps.3'), { code: 'shutting_down' });
  });

  t.test('repeats a run without a bundle, whatever its result', async (t) => {
    const { queue } = await start(t);
    await queue.start(async () => runResult('ok'));
    const admission = await queue.reserve({ pipelineId: 'maps' });
    await admission.accept({ runId: 'maps.1', pipelineId: 'maps', staged: null }, digestOf('{}'));
    await finished(queue, 'maps.1');
    t.match(await queue.find('maps.1'), { status: 'succeeded', rerunnable: true });
    t.match(await queue.rerun('maps.1', 'maps.2'), { replayed: false, record: { rerun_of: 'maps.1' } });
    t.match(await queue.find('maps.1'), { rerunnable: false }, 'only the latest rerun can be repeated');
    t.match(await finished(queue, 'maps.2'), { status: 'succeeded', rerun_of: 'maps.1', rerunnable: true });
    t.same(await queue.bundleUsage(), { bundles: 0, bytes: 0 });
  });

  t.test('stores a limited number of bundles, and removes the oldest first', async (t) => {
    const keep = { keepMs: 60_000, maxBundles: 3, maxBytes: 25 };
    const { queue, elapse, discarded, expired } = await start(t, { keep });
    await queue.start(async () => runResult('failed'));
    const fail = async (runId: string, bytes: number): Promise<void> => {
      const admission = await queue.reserve({ pipelineId: 'maps' });
      await admission.accept({ ...jobOf(runId), staged: `/staging/${runId}`, bytes }, digestOf(runId));
      await finished(queue, runId);
    };
    t.same(await queue.bundleUsage(), { bundles: 0, bytes: 0 });
    for (const id of ['maps.1', 'maps.2', 'maps.3']) await fail(id, 5);
    t.same(await queue.bundleUsage(), { bundles: 3, bytes: 15 });
    t.match(await queue.depth(), { reserved: 0, queued: 0, running: 0 }, 'they wait for nothing');
    await fail('maps.4', 5);
    await elapse(1_000);
    await until(
      async () => discarded,
      (ids) => ids.length === 1,
    );
    await fail('maps.5', 16);
    await elapse(1_000);
    await until(
      async () => discarded,
      (ids) => ids.length === 3,
    );
    t.same(discarded, ['maps.1', 'maps.2', 'maps.3']);
    for (const id of discarded) await t.rejects(queue.rerun(id, 'maps.6'), { code: 'bundle_gone' }, id);
    t.match(await queue.find('maps.1'), { status: 'failed', rerunnable: false }, 'the record stays');
    t.same(await queue.bundleUsage(), { bundles: 2, bytes: 21 });
    t.match(await queue.rerun('maps.4', 'maps.6'), { replayed: false });
    await finished(queue, 'maps.6');
    t.same(expired, []);
  });

  t.test('a bundle is stored no longer than its retention', async (t) => {
    const keep = { keepMs: 1_000, maxBundles: 100, maxBytes: 1e9 };
    const { queue, elapse, discarded } = await start(t, { keep });
    await queue.start(async () => runResult('failed'));
    await submit(queue, 'maps.1');
    await finished(queue, 'maps.1');
    await elapse(1_001);
    await until(
      async () => discarded,
      (ids) => ids.length > 0,
    );
    t.same(discarded, ['maps.1']);
    await t.rejects(queue.rerun('maps.1', 'maps.2'), { code: 'bundle_gone' });
  });

  t.test('the same key with the same manifest returns the first run and queues nothing', async (t) => {
    const { queue } = await start(t);
    const key = { caller: 'ci', key: 'k1' };
    await submit(queue, 'maps.1', { key, manifest: 'A' });
    const again = await submit(queue, 'maps.2', { key, manifest: 'A' });
    t.match(again, { replayed: true, record: { run_id: 'maps.1' } });
    t.equal(await queue.find('maps.2'), undefined);
    t.same(await queue.depth(), { reserved: 0, queued: 1, running: 0 });
  });

  t.test('the same key with another manifest is a conflict and does not affect the first run', async (t) => {
    const { queue } = await start(t);
    const key = { caller: 'ci', key: 'k1' };
    await submit(queue, 'maps.1', { key, manifest: 'A' });
    await t.rejects(submit(queue, 'maps.2', { key, manifest: 'B' }), { code: 'idempotency_conflict' });
    t.same(await queue.depth(), { reserved: 0, queued: 1, running: 0 }, 'its slot is free');
    t.match(await submit(queue, 'maps.3', { key, manifest: 'A' }), {
      replayed: true,
      record: { run_id: 'maps.1' },
    });
  });

  t.test('restarts a failed run under its key once, on request', async (t) => {
    const { queue } = await start(t);
    const workers = gatedWorkers();
    await queue.start(workers.process);
    const key = { caller: 'ci', key: 'k1' };
    const again = { ...key, rerunFailed: true };
    await submit(queue, 'maps.1', { key, manifest: 'A' });
    t.match(
      await submit(queue, 'maps.2', { key: again, manifest: 'A' }),
      { replayed: true },
      'not failed yet',
    );
    workers.finish('maps.1', runResult('failed'));
    t.equal((await finished(queue, 'maps.1')).status, 'failed');
    t.match(await submit(queue, 'maps.3', { key, manifest: 'A' }), {
      replayed: true,
      record: { run_id: 'maps.1' },
    });
    await t.rejects(submit(queue, 'maps.4', { key: again, manifest: 'B' }), { code: 'idempotency_conflict' });
    const both = await Promise.all(
      [1, 2].map(() => queue.reserve({ pipelineId: 'maps', idempotency: again })),
    );
    t.match(await queue.depth(), { reserved: 2 });
    const [first, second] = await Promise.all(
      both.map((admission, index) => admission.accept(jobOf(`maps.${index + 5}`), digestOf('A'))),
    );
    const started = [first, second].find((one) => one?.replayed === false)?.record.run_id ?? 'none';
    t.same([first?.record.run_id, second?.record.run_id], [started, started], 'one run for both');
    await workers.started(started);
    t.match(await queue.depth(), { reserved: 0, queued: 0, running: 1 });
    workers.finish(started, runResult('ok'));
    await finished(queue, started);
    for (const one of [key, again])
      t.match(
        await submit(queue, 'maps.7', { key: one, manifest: 'A' }),
        { replayed: true, record: { run_id: started, status: 'succeeded' } },
        'from then on, the key belongs to the new run',
      );
    t.match(await queue.find('maps.1'), { status: 'failed' }, 'the failure stays visible');
  });

  t.test('a rerun needs a slot, and its key remains after the failed run is deleted', async (t) => {
    const { queue, elapse, expired } = await start(t, { queueSize: 1, retentionMs: 1_000 });
    const workers = gatedWorkers();
    await queue.start(workers.process);
    const key = { caller: 'ci', key: 'k1', rerunFailed: true };
    await submit(queue, 'maps.1', { key, manifest: 'A' });
    await workers.started('maps.1');
    const replay = await queue.reserve({ pipelineId: 'maps', idempotency: key });
    const other = await queue.reserve({ pipelineId: 'docs' });
    workers.finish('maps.1', runResult('failed'));
    await finished(queue, 'maps.1');
    await t.rejects(queue.reserve({ pipelineId: 'maps', idempotency: key }), { code: 'queue_full' });
    await t.rejects(replay.accept(jobOf('maps.2'), digestOf('A')), { code: 'queue_full' });
    await other.release();
    t.match(await submit(queue, 'maps.3', { key, manifest: 'A' }), { replayed: false });
    await workers.started('maps.3');
    await elapse(1_001);
    await until(
      async () => expired,
      (ids) => ids.length > 0,
    );
    t.match(await submit(queue, 'maps.4', { key, manifest: 'A' }), {
      replayed: true,
      record: { run_id: 'maps.3' },
    });
    workers.finish('maps.3', runResult('ok'));
    await finished(queue, 'maps.3');
  });

  t.test('a key is scoped to token, pipeline and key', async (t) => {
    const { queue } = await start(t);
    await submit(queue, 'maps.1', { key: { caller: 'ci', key: 'k1' }, manifest: 'A' });
    t.equal(
      (await submit(queue, 'maps.2', { key: { caller: 'ci', key: 'k2' }, manifest: 'B' })).replayed,
      false,
    );
    t.equal(
      (await submit(queue, 'maps.3', { key: { caller: 'cron', key: 'k1' }, manifest: 'B' })).replayed,
      false,
    );
    t.equal(
      (await submit(queue, 'docs.1', { key: { caller: 'ci', key: 'k1' }, manifest: 'B' })).replayed,
      false,
    );
  });

  t.test(
    'rejects the second of two concurrent requests with one key; accepts it after a release',
    async (t) => {
      const { queue } = await start(t);
      const idempotency = { caller: 'ci', key: 'k1' };
      const first = await queue.reserve({ pipelineId: 'maps', idempotency });
      await t.rejects(queue.reserve({ pipelineId: 'maps', idempotency }), {
        code: 'idempotency_in_progress',
        retryable: true,
      });
      t.match(await queue.depth(), { reserved: 1 }, 'it holds no slot');
      await first.release();
      t.match(await submit(queue, 'maps.2', { key: idempotency, manifest: 'A' }), { replayed: false });
    },
  );

  t.test('two concurrent replays of one key both return the first run', async (t) => {
    const { queue } = await start(t);
    const idempotency = { caller: 'ci', key: 'k1' };
    await submit(queue, 'maps.1', { key: idempotency, manifest: 'A' });
    const replays = await Promise.all([1, 2].map(() => queue.reserve({ pipelineId: 'maps', idempotency })));
    const answers = await Promise.all(
      replays.map((admission, n) => admission.accept(jobOf(`maps.${n + 2}`), digestOf('A'))),
    );
    t.same(
      answers.map(({ record, replayed }) => [record.run_id, replayed]),
      [
        ['maps.1', true],
        ['maps.1', true],
      ],
    );
  });

  t.test(
    'a replay needs no slot: it returns the first run, or its conflict, even if all are in use',
    async (t) => {
      const { queue } = await start(t, { queueSize: 2 });
      const key = { caller: 'ci', key: 'k1' };
      await submit(queue, 'maps.1', { key, manifest: 'A' });
      const other = await queue.reserve({ pipelineId: 'docs' });
      await t.rejects(queue.reserve({ pipelineId: 'docs' }), { code: 'queue_full' });
      t.match(await submit(queue, 'maps.2', { key, manifest: 'A' }), {
        replayed: true,
        record: { run_id: 'maps.1' },
      });
      await t.rejects(submit(queue, 'maps.3', { key, manifest: 'B' }), { code: 'idempotency_conflict' });
      const idle = await queue.reserve({ pipelineId: 'maps', idempotency: key });
      await idle.release();
      t.same(await queue.depth(), { reserved: 1, queued: 1, running: 0 }, 'every slot is unchanged');
      await other.release();
      t.same(await queue.depth(), { reserved: 0, queued: 1, running: 0 });
    },
  );

  t.test('a replay needs a slot if its first run expires meanwhile', async (t) => {
    const { queue, elapse, expired } = await start(t, { queueSize: 1, retentionMs: 1_000 });
    await queue.start(async () => runResult('ok'));
    const idempotency = { caller: 'ci', key: 'k1' };
    await submit(queue, 'maps.1', { key: idempotency, manifest: 'A' });
    await finished(queue, 'maps.1');
    const late = await queue.reserve({ pipelineId: 'maps', idempotency });
    const later = await queue.reserve({ pipelineId: 'maps', idempotency });
    const other = await queue.reserve({ pipelineId: 'docs' });
    await elapse(1_001);
    await until(
      async () => expired,
      (ids) => ids.length > 0,
    );
    t.equal(await queue.find('maps.1'), undefined);
    await t.rejects(late.accept(jobOf('maps.2'), digestOf('A')), { code: 'queue_full' });
    t.match(await queue.depth(), { reserved: 1 }, 'the slots are unchanged');
    await other.release();
    t.match(await later.accept(jobOf('maps.3'), digestOf('A')), { replayed: false });
    t.equal((await finished(queue, 'maps.3')).status, 'succeeded');
  });

  t.test(
    'a finished run is kept for the retention, then deleted with its key; an unfinished one stays',
    async (t) => {
      const { queue, elapse, expired } = await start(t, { retentionMs: 1_000 });
      const workers = gatedWorkers();
      await queue.start(workers.process);
      const key = { caller: 'ci', key: 'k1' };
      await submit(queue, 'maps.1', { key, manifest: 'A' });
      await submit(queue, 'docs.1');
      await workers.started('maps.1');
      workers.finish('maps.1', runResult('ok'));
      await finished(queue, 'maps.1');
      await elapse(1_001);
      await until(
        async () => expired,
        (ids) => ids.length > 0,
      );
      t.same(expired, ['maps.1']);
      t.equal(await queue.find('maps.1'), undefined);
      t.match(await queue.find('docs.1'), { run_id: 'docs.1' });
      t.match(await submit(queue, 'maps.2', { key, manifest: 'B' }), { replayed: false });
      workers.finish('docs.1', runResult('ok'));
      workers.finish('maps.2', runResult('ok'));
      await finished(queue, 'maps.2');
    },
  );

  t.test("list returns a pipeline's runs, newest first", async (t) => {
    const { queue } = await start(t);
    for (const id of ['maps.1', 'docs.1', 'maps.2']) await submit(queue, id);
    t.same(
      (await queue.list(['maps'], { limit: 500 })).runs.map(({ run_id }) => run_id),
      ['maps.2', 'maps.1'],
    );
    t.same(await queue.list(['none'], { limit: 500 }), { runs: [], next: null });
    t.same(await queue.list([], { limit: 500 }), { runs: [], next: null });
  });

  t.test('list returns pages of any size, from any run, and of one status', async (t) => {
    const { queue } = await start(t, { queueSize: 20 });
    const workers = gatedWorkers();
    await queue.start(workers.process);
    const ids = Array.from({ length: 7 }, (_, index) => `maps.${index + 1}`);
    for (const id of ids) await submit(queue, id);
    await submit(queue, 'docs.1');
    for (const [id, outcome] of [
      ['maps.1', 'ok'],
      ['maps.2', 'failed'],
    ] as const) {
      workers.finish(id, runResult(outcome));
      await finished(queue, id);
    }
    const newestFirst = ids.toReversed();
    for (const limit of [1, 2, 3, 7, 8]) {
      const pages: string[][] = [];
      let before: string | null = null;
      for (;;) {
        const page = await queue.list(['maps'], { limit, before });
        pages.push(page.runs.map(({ run_id }) => run_id));
        const isLast = pages.flat().length === ids.length;
        t.equal(page.next, isLast ? null : pages.at(-1)?.at(-1), `limit ${limit}, page ${pages.length}`);
        if (page.next === null) break;
        before = page.next;
      }
      t.same(pages.flat(), newestFirst, `limit ${limit}`);
      t.ok(pages.every((page) => page.length <= limit));
    }
    const failed = await queue.list(['maps'], { limit: 1, status: 'failed' });
    t.match(failed, { runs: [{ run_id: 'maps.2', status: 'failed' }], next: null });
    const done = await queue.list(['maps'], { limit: 5, status: 'succeeded', before: 'maps.3' });
    t.match(done, { runs: [{ run_id: 'maps.1' }], next: null });
    for (const before of ['docs.1', 'maps.8'])
      await t.rejects(queue.list(['maps'], { limit: 1, before }), { code: 'run_not_found' }, before);
    for (const id of [...ids.slice(2), 'docs.1']) {
      workers.finish(id, runResult('ok'));
      await finished(queue, id);
    }
  });

  t.test('list searches several pipelines, in the order of acceptance, by words', async (t) => {
    const { queue, elapse } = await start(t, { queueSize: 20 });
    for (const id of ['maps.1', 'docs.1', 'maps.2', 'a.1', 'docs.2']) await submit(queue, id);
    const listed = async (pipelineIds: string[], query: Omit<RunQuery, 'limit'> = {}) =>
      (await queue.list(pipelineIds, { limit: 500, ...query })).runs.map(({ run_id }) => run_id);
    t.same(await listed(['docs', 'maps']), ['docs.2', 'maps.2', 'docs.1', 'maps.1']);
    t.same(await listed(['docs', 'maps', 'a']), ['docs.2', 'a.1', 'maps.2', 'docs.1', 'maps.1']);
    t.same(await listed(['docs', 'maps'], { before: 'maps.2' }), ['docs.1', 'maps.1']);
    await t.rejects(listed(['docs'], { before: 'maps.2' }), { code: 'run_not_found' });
    let pages: string[] = [];
    for (let before: string | null = null, isLast = false; !isLast;) {
      const page: RunPage = await queue.list(['a', 'maps', 'docs'], { limit: 2, before });
      pages = [...pages, ...page.runs.map(({ run_id }) => run_id)];
      before = page.next;
      isLast = page.next === null;
    }
    t.same(pages, ['docs.2', 'a.1', 'maps.2', 'docs.1', 'maps.1']);

    const workers = gatedWorkers();
    await queue.start(workers.process);
    workers.finish('maps.1', runResult('failed'));
    await finished(queue, 'maps.1');
    t.same(await listed(['maps', 'docs', 'a'], { text: 'UNMANAGED session-1' }), ['maps.1']);
    t.same(await listed(['maps', 'docs', 'a'], { text: 'unmanaged nothing' }), []);
    t.same(await listed(['docs', 'a'], { text: 'unmanaged' }), [], 'of the requested pipelines');
    t.same(await listed(['maps', 'docs'], { text: 'docs.' }), ['docs.2', 'docs.1']);
    await elapse(10);
    await submit(queue, 'e.1');
    const since = new Date((await queue.find('e.1'))?.accepted_at ?? '');
    t.same(await listed(['maps', 'docs', 'a', 'e'], { since }), ['e.1']);
    t.same(await listed(['e'], { since: new Date(since.getTime() + 1) }), []);
    t.same(await listed(['e'], { notAfter: since }), ['e.1']);
    t.same(await listed(['e'], { notAfter: new Date(since.getTime() - 1) }), []);
    for (const id of ['docs.1', 'maps.2', 'a.1', 'docs.2', 'e.1']) workers.finish(id, runResult('ok'));
    for (const id of ['maps.2', 'a.1', 'docs.2', 'e.1']) await finished(queue, id);
  });

  t.test('reports queued, running, latest and last successful runs in the overview', async (t) => {
    const { queue, elapse, expired } = await start(t, { queueSize: 20, retentionMs: 1_000 });
    const workers = gatedWorkers();
    for (const id of ['maps.1', 'maps.2', 'docs.1']) await submit(queue, id);
    const none = { waiting: 0, retrying: 0, running: null, lastRun: null, lastSuccess: null };
    t.match(await queue.overview(['docs', 'a', 'maps']), [
      { waiting: 1, running: null, lastRun: { run_id: 'docs.1', status: 'queued' }, lastSuccess: null },
      none,
      { waiting: 2, running: null, lastRun: { run_id: 'maps.2' } },
    ]);
    await queue.start(workers.process);
    await workers.started('maps.1');
    t.match(await queue.overview(['maps']), [{ waiting: 1, running: 'maps.1' }]);
    workers.finish('maps.1', runResult('ok'));
    const first = await finished(queue, 'maps.1');
    workers.finish('maps.2', runResult('failed'));
    await finished(queue, 'maps.2');
    const lastSuccess = { run_id: 'maps.1', finished_at: first.finished_at };
    t.match(await queue.overview(['maps']), [
      { waiting: 0, running: null, lastRun: { run_id: 'maps.2', status: 'failed' }, lastSuccess },
    ]);
    await elapse(1_001);
    await until(
      async () => expired,
      ({ length }) => length === 2,
    );
    t.same(await queue.overview(['maps']), [{ ...none, lastSuccess }], 'it stays longer than the record');
    t.same(await queue.overview([]), []);
    workers.finish('docs.1', runResult('ok'));
    await finished(queue, 'docs.1');
  });

  t.test("reports the pipeline's wait from the first run in its queue", async (t) => {
    const { queue, elapse } = await start(t, { queueSize: 20, retentionMs: 60_000 });
    const workers = gatedWorkers();
    const queuedAt = async (id: string): Promise<string | null | undefined> =>
      (await queue.find(id))?.queued_at;
    for (const id of ['maps.1', 'maps.2', 'docs.1']) {
      await submit(queue, id);
      await elapse(5);
    }
    t.same(await queue.waitingSince([]), []);
    t.same(await queue.waitingSince(['docs', 'a', 'maps']), [
      await queuedAt('docs.1'),
      null,
      await queuedAt('maps.1'),
    ]);
    t.ok(((await queuedAt('maps.1')) ?? '') < ((await queuedAt('maps.2')) ?? ''));
    await queue.start(workers.process);
    await workers.started('maps.1');
    t.same(await queue.waitingSince(['maps']), [await queuedAt('maps.2')]);
    workers.finish('maps.1', runResult('ok'));
    await workers.started('maps.2');
    t.same(await queue.waitingSince(['maps']), [null]);
    for (const id of ['maps.2', 'docs.1']) workers.finish(id, runResult('ok'));
    for (const id of ['maps.2', 'docs.1']) await finished(queue, id);
  });

  t.test('a watch returns the changes after any cursor, each run once, in its current state', async (t) => {
    const { queue } = await start(t);
    const workers = gatedWorkers();
    let calls = 0;
    const watch = queue.watch(() => void (calls += 1));
    const beginning = await watch.cursor();
    const all = () => changesAfter(watch, beginning);
    t.same(await all(), []);
    await submit(queue, 'maps.1');
    await submit(queue, 'docs.1');
    await submit(queue, 'maps.2');
    const queued = await until(all, ({ length }) => length === 3);
    t.ok(calls >= 1, 'the callback was called');
    t.match(queued, [{ run_id: 'maps.1' }, { run_id: 'docs.1' }, { run_id: 'maps.2' }]);
    t.ok(queued.every(({ status }) => status === 'queued'));

    await queue.start(workers.process);
    await workers.started('maps.1');
    workers.finish('maps.1', runResult('ok'));
    await workers.started('maps.2');
    const seen = await until(
      all,
      (records) =>
        records.some(({ run_id, status }) => run_id === 'maps.1' && status === 'succeeded') &&
        records.filter(({ status }) => status === 'running').length === 2,
    );
    t.same(seen.map(({ run_id }) => run_id).sort(), ['docs.1', 'maps.1', 'maps.2']);
    t.match(
      seen.find(({ run_id }) => run_id === 'maps.1'),
      { summary: { publish_new: 1 }, progress: null },
    );
    const maps = await changesAfter(watch, beginning, ({ pipeline_id }) => pipeline_id === 'maps');
    t.same(maps.map(({ run_id }) => run_id).sort(), ['maps.1', 'maps.2']);

    const now = await watch.cursor();
    t.same(await changesAfter(watch, now), []);
    const other = queue.watch(() => undefined);
    workers.finish('docs.1', runResult('failed'));
    const late = await until(
      () => changesAfter(other, now),
      (records) => records[0]?.status === 'failed',
    );
    t.match(late, [{ run_id: 'docs.1' }], 'a cursor is valid for another reader');
    watch.close();
    other.close();
    const third = queue.watch(() => undefined);
    t.match(await changesAfter(third, now), [{ run_id: 'docs.1' }], 'and later without a watcher');
    third.close();
    workers.finish('maps.2', runResult('ok'));
    await finished(queue, 'maps.2');
  });

  t.test(
    'each page of a watch continues after the last one, even if a filter excluded its changes',
    async (t) => {
      const { queue } = await start(t, { queueSize: 20 });
      const watch = queue.watch(() => undefined);
      const beginning = await watch.cursor();
      const ids = Array.from({ length: 9 }, (_, index) => `${index % 3 === 2 ? 'docs' : 'maps'}.${index}`);
      for (const id of ids) await submit(queue, id);
      await until(
        () => changesAfter(watch, beginning),
        ({ length }) => length === ids.length,
      );
      for (const most of [1, 2, 6, 7]) {
        const found: string[] = [];
        let [cursor, isLast] = [beginning, false];
        while (!isLast) {
          const wants = ({ pipeline_id }: Readonly<RunRecord>): boolean => pipeline_id === 'maps';
          const page = await watch.after(cursor, { limit: most, wants });
          t.ok(page !== null && page.changes.length <= most);
          found.push(...(page?.changes ?? []).map(({ record }) => record.run_id));
          for (const change of page?.changes ?? []) {
            const rest = await watch.after(change.cursor, { limit: 100, wants: () => true });
            t.equal(
              rest?.changes[0]?.record.run_id,
              ids[ids.indexOf(change.record.run_id) + 1],
              'the changes after a change follow its cursor',
            );
          }
          [cursor, isLast] = [page?.cursor ?? '', page?.more !== true];
        }
        t.same(
          found,
          ids.filter((id) => id.startsWith('maps')),
          `${most} a page`,
        );
        t.equal(cursor, await watch.cursor());
      }
      watch.close();
    },
  );

  t.test('a watch reports progress in few changes, with every stage', async (t) => {
    const { queue, elapse } = await start(t);
    const workers = gatedWorkers();
    let calls = 0;
    const watch = queue.watch(() => void (calls += 1));
    const beginning = await watch.cursor();
    const shown = async () => (await changesAfter(watch, beginning))[0]?.progress;
    await queue.start(workers.process);
    await submit(queue, 'maps.1');
    const { onProgress } = await workers.started('maps.1');
    const [destinationId, destinationPath] = ['web', '.'];
    onProgress({
      type: 'planned',
      destinationId,
      destinationPath,
      action: 'publish_new',
      outputs: 2,
      bytes: 1000,
    });
    await elapse(1_000);
    t.match(await until(shown, (progress) => progress?.stage === 'writing'), { bytes_done: 0 });
    const before = calls;
    for (let count = 0; count < 1000; count++) onProgress({ type: 'bytes', destinationId, count: 1 });
    await elapse(1_000);
    t.match(await until(shown, (progress) => progress?.bytes_done === 1000), { outputs_done: 0 });
    t.ok(calls - before < 50, `${calls - before} calls`);
    workers.finish('maps.1', runResult('ok'));
    await until(
      () => changesAfter(watch, beginning),
      ([record]) => record?.status === 'succeeded',
    );
    watch.close();
  });

  t.test('a cursor of a deleted run or of another queue returns null', async (t) => {
    const { queue, elapse, expired } = await start(t, { retentionMs: 1_000 });
    const watch = queue.watch(() => undefined);
    const beginning = await watch.cursor();
    await queue.start(async () => runResult('ok'));
    await submit(queue, 'maps.1');
    await until(
      () => changesAfter(watch, beginning),
      ([record]) => record?.status === 'succeeded',
    );
    const now = await watch.cursor();
    watch.close();
    await elapse(1_001);
    await until(
      async () => expired,
      ({ length }) => length > 0,
    );
    const later = queue.watch(() => undefined);
    const query = { limit: 10, wants: () => true };
    await until(
      () => later.after(beginning, query),
      (page) => page === null,
    );
    t.same(
      await later.after(now, query),
      { changes: [], cursor: now, more: false },
      'a caller who has seen the result continues',
    );
    for (const cursor of ['', 'x', '1', `${now}0`, `0${now}`, now.replace(/-.*/, '-999999'), 'abcdefgh-1'])
      t.equal(await later.after(cursor, query), null, cursor);
    later.close();
  });

  t.test('every wait for a run ends when it has finished, or when the caller aborts', async (t) => {
    const { queue } = await start(t);
    const workers = gatedWorkers();
    await queue.start(workers.process);
    await submit(queue, 'maps.1');
    const never = new AbortController().signal;
    const over = new Set<string>();
    const wait = (name: string, runId: string, signal = never): Promise<void> =>
      queue.untilFinished(runId, signal).then(() => void over.add(name));
    const impatient = new AbortController();
    const early = wait('early', 'maps.1', impatient.signal);
    const waits = ['first', 'second', 'third'].map((name) => wait(name, 'maps.1'));
    await wait('unknown', 'maps.2');
    await workers.started('maps.1');
    impatient.abort();
    await early;
    await wait('aborted before', 'maps.1', AbortSignal.abort());
    t.same([...over].sort(), ['aborted before', 'early', 'unknown']);
    workers.finish('maps.1', runResult('ok'));
    await finished(queue, 'maps.1');
    await Promise.all(waits);
    await wait('late', 'maps.1');
    t.equal(over.size, 7);
  });

  t.test('a failed run ends the waits for it, and so does closing the queue', async (t) => {
    const { queue, elapse } = await start(t, { maxConcurrency: 1 });
    const workers = gatedWorkers();
    await queue.start(workers.process);
    await submit(queue, 'maps.1');
    await submit(queue, 'maps.2');
    const never = new AbortController().signal;
    const waits = ['maps.1', 'maps.2'].map((runId) => queue.untilFinished(runId, never));
    await workers.started('maps.1');
    const closed = queue.close(500);
    await elapse(501);
    await Promise.all([closed, ...waits]);
    t.pass('all waits are over');
  });

  t.test('changing a returned record does not change the queue', async (t) => {
    const { queue } = await start(t);
    await submit(queue, 'maps.1');
    const record = await queue.find('maps.1');
    if (record !== undefined) record.status = 'failed';
    t.match(await queue.find('maps.1'), { status: 'queued' });
  });

  t.test(
    'a draining queue rejects uploads, but accepts and runs those that already hold a slot',
    async (t) => {
      const { queue } = await start(t);
      const admission = await queue.reserve({ pipelineId: 'maps' });
      queue.drain();
      await t.rejects(queue.reserve({ pipelineId: 'maps' }), { code: 'shutting_down' });
      await admission.accept(jobOf('maps.1'), digestOf('A'));
      await queue.start(async () => runResult('ok'));
      t.equal((await finished(queue, 'maps.1')).status, 'succeeded');
    },
  );

  t.test('close waits for running jobs, and for waiting ones that would be lost', async (t) => {
    const { queue, waitingSurvives } = await start(t);
    const workers = gatedWorkers();
    await queue.start(workers.process);
    await submit(queue, 'maps.1');
    await submit(queue, 'maps.2');
    await workers.started('maps.1');
    const closed = queue.close(3_600_000);
    workers.finish('maps.1', runResult('ok'));
    workers.finish('maps.2', runResult('ok'));
    t.same(await closed, { unfinished: [] });
    t.same(workers.order, waitingSurvives ? ['maps.1'] : ['maps.1', 'maps.2']);
  });

  t.test('close aborts jobs at its deadline, starts no more, and names the unfinished ones', async (t) => {
    const { queue, elapse, waitingSurvives } = await start(t);
    const workers = gatedWorkers();
    await queue.start(workers.process);
    await submit(queue, 'maps.1');
    await submit(queue, 'maps.2');
    const late = await queue.reserve({ pipelineId: 'docs' });
    const { signal } = await workers.started('maps.1');
    const closed = queue.close(500);
    await elapse(501);
    const unfinished = waitingSurvives ? ['maps.1'] : ['maps.1', 'maps.2'];
    t.same(await closed, { unfinished });
    t.ok(signal.aborted);
    t.same(workers.order, ['maps.1']);
    t.same(await queue.close(500), { unfinished }, 'a second call gives the same answer');
    await t.rejects(late.accept(jobOf('docs.1'), digestOf('A')), { code: 'shutting_down' });
  });

  retryContract(t, start);
  triggerContract(t, {
    start: (settings) => start(t, settings),
    workers: () => {
      const { process, started, finish } = gatedWorkers();
      return { process, started, finish: (runId) => finish(runId, runResult('ok')) };
    },
  });
}

/** Waits until the first attempt has failed. */
function deliveryNote(eventId: string): DeliveryNote {
  return {
    ...{ notifierId: 'hook', eventId, eventType: 'bundle.published', status: 'retrying', tries: 1 },
    ...{ isMore: false, reason: 'https://hooks.example.org:8443 answered 503' },
    ...{ nextTryAt: '2026-11-20T02:04:35.000Z', at: new Date('2026-11-20T02:04:34Z') },
  } as const;
}

async function submit(
  queue: JobQueue,
  runId: string,
  { key, manifest = runId }: { key?: Idempotency; manifest?: string } = {},
): Promise<AcceptedRun> {
  const job = jobOf(runId);
  const admission = await queue.reserve({
    pipelineId: job.pipelineId,
    ...(key === undefined ? {} : { idempotency: key }),
  });
  return admission.accept(job, digestOf(manifest));
}

/** `maps.1` is a run of the pipeline `maps`. */
function jobOf(runId: string): StagedJob {
  const pipelineId = runId.split('.', 1)[0] ?? '';
  return { runId, pipelineId, staged: `/staging/${runId}`, bundlePath: 'session-1' };
}

async function finished(queue: JobQueue, runId: string): Promise<RunRecord> {
  const record = await until(
    () => queue.find(runId),
    (found) => found?.status === 'succeeded' || found?.status === 'failed',
  );
  return record as RunRecord;
}

/** Every wanted change after the cursor, from all pages. */
async function changesAfter(
  watch: RunWatch,
  after: string,
  wants: (record: Readonly<RunRecord>) => boolean = () => true,
): Promise<Readonly<RunRecord>[]> {
  const records: Readonly<RunRecord>[] = [];
  for (let cursor = after; ;) {
    const page = await watch.after(cursor, { limit: 4, wants });
    if (page === null) throw new TypeError(`${cursor} is not usable`);
    records.push(...page.changes.map(({ record }) => record));
    if (!page.more) return records;
    cursor = page.cursor;
  }
}

/** Polls until the value is right. The test's own timeout ends the loop. */
async function until<T>(look: () => Promise<T>, right: (seen: T) => boolean): Promise<T> {
  for (;;) {
    const seen = await look();
    if (right(seen)) return seen;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

type WorkerContext = Parameters<JobProcessor>[1];

/**
 * Workers that report when they start, and end only when the test tells them to. An abort ends them with its
 * reason.
 */
function gatedWorkers() {
  const contexts = new Map<string, WorkerContext>();
  const results = new Map<string, JobResult>();
  const endings = new Map<string, (result: JobResult) => void>();
  const order: string[] = [];
  const running = new Set<string>();
  const peaks = new Map<string, number>();
  const note = (group: string, count: number) => peaks.set(group, Math.max(peaks.get(group) ?? 0, count));
  const process: JobProcessor = async (job, context) => {
    order.push(job.runId);
    running.add(job.runId);
    note('', running.size);
    note(job.pipelineId, [...running].filter((id) => id.startsWith(`${job.pipelineId}.`)).length);
    contexts.set(job.runId, context);
    try {
      return await new Promise<JobResult>((resolve, reject) => {
        const early = results.get(job.runId);
        if (early !== undefined) resolve(early);
        endings.set(job.runId, resolve);
        context.signal.addEventListener('abort', () => reject(context.signal.reason as Error));
      });
    } finally {
      running.delete(job.runId);
    }
  };
  return {
    process,
    order,
    most: (pipelineId = '') => peaks.get(pipelineId) ?? 0,
    started: async (runId: string) =>
      (await until(
        async () => contexts.get(runId),
        (context) => context !== undefined,
      )) as WorkerContext,
    finish: (runId: string, result: JobResult) => {
      results.set(runId, result);
      endings.get(runId)?.(result);
    },
  };
}

export function runResult(outcome: 'ok' | 'failed'): JobResult {
  const action = outcome === 'ok' ? 'publish_new' : 'fail_unmanaged';
  const run: RunResult = {
    dryRun: false,
    force: false,
    pipelines: [
      {
        pipelineId: 'maps',
        status: outcome,
        bundles: 1,
        invalidBundles: [],
        destinations: [
          {
            destinationId: 'web',
            location: 'local',
            status: outcome,
            actions: [actionResult(action)],
            orphans: [],
            warnings: [],
            error: null,
          },
        ],
        warnings: [],
        error: null,
      },
    ],
    counters: { ...noActions, [action]: 1, failed_destinations: outcome === 'ok' ? 0 : 1 },
    warnings: [],
  };
  return { run };
}

function actionResult(action: 'publish_new' | 'fail_unmanaged'): ActionResult {
  const failed = action === 'fail_unmanaged';
  return {
    bundle: 'session-1',
    destinationPath: 'session-1',
    action,
    reason: null,
    changes: [],
    unkept: [],
    outputs: [],
    release: null,
    channel: null,
    url: null,
    outputsWritten: failed ? 0 : 2,
    outputsLinked: 0,
    outputsKept: failed ? 0 : 5,
    outputsRemoved: 0,
    bytesWritten: 0,
    bytesLinked: 0,
    bytesKept: 0,
    error: failed
      ? {
          code: 'unmanaged_content',
          message: 'session-1 holds content',
          hint: null,
          retryable: false,
          findings: [],
        }
      : null,
  };
}

const noActions = countActions([]);
