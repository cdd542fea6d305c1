import { type Job, Queue } from 'bullmq';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { BullmqQueue } from '../../../src/workers/bullmq/bullmq-queue.ts';
import { RedisLink } from '../../../src/workers/bullmq/link.ts';
import { RunStore } from '../../../src/workers/bullmq/run-store.ts';
import type { JobQueue } from '../../../src/workers/queue/job-queue.ts';
import type { RunRecord } from '../../../src/workers/queue/run-record.ts';
import { isRetrying, noRetries, type RetrySettingsOf } from '../../../src/workers/queue/run-retry.ts';
import {
  acceptedRun,
  progressedRun,
  queuedRun,
  startedRun,
} from '../../../src/workers/queue/run-transitions.ts';
import { queueContract, runResult } from '../../contract/queue.ts';
import { startRedis } from '../../services/redis.ts';
import { howMany, share } from '../../support/sampling.ts';
import { manualClock } from '../manual-clock.ts';
import { newTally, openScheduler, scheduled, until } from '../schedule/hosts.ts';

const redis = await startRedis();
t.teardown(() => redis.close());

let opened = 0;
queueContract(t, async (settings) => {
  opened += 1;
  const queue = await BullmqQueue.open({
    clock: systemClock,
    log: silentLog,
    redis: { url: redis.url, urlEnv: 'REDIS_URL', prefix: `contract-${opened}` },
    pipelineIds: ['maps', 'docs', 'a', 'b', 'c', 'd', 'e'],
    workerTimeoutMs: 5_000,
    shared: { share: async (job) => job, remove: async () => undefined },
    ...settings,
  });
  return { queue, elapse: (ms) => systemClock.sleep(ms), waitingSurvives: true };
});

t.test('a page reads one record more than it shows, whatever the total number is', async (t) => {
  const queue = await BullmqQueue.open({
    clock: systemClock,
    log: silentLog,
    redis: { url: redis.url, urlEnv: 'REDIS_URL', prefix: 'pages' },
    pipelineIds: ['maps'],
    workerTimeoutMs: 5_000,
    queueSize: 100,
    maxConcurrency: 1,
    retentionMs: 60_000,
    onExpire: async () => undefined,
    shared: { share: async (job) => job, remove: async () => undefined },
  });
  const other = new Redis(redis.url);
  t.teardown(async () => {
    other.disconnect();
    await queue.close(0);
  });
  for (let run = 1; run <= 60; run++) {
    const admission = await queue.reserve({ pipelineId: 'maps' });
    await admission.accept({ runId: `maps.${run}`, pipelineId: 'maps', staged: null }, digestOf('{}'));
  }
  await other.config('RESETSTAT');
  t.match(await queue.list(['maps'], { limit: 1 }), {
    runs: [{ run_id: 'maps.60' }],
    next: 'maps.60',
  });
  const [, calls = 'none'] = /cmdstat_hmget:calls=(\d+)/.exec(await other.info('commandstats')) ?? [];
  t.equal(Number(calls), 2);
});

const openHost = (
  prefix: string,
  flushed: () => Promise<void> = async () => undefined,
  retries: RetrySettingsOf = noRetries,
) =>
  BullmqQueue.open({
    flushed,
    retries,
    clock: systemClock,
    log: silentLog,
    redis: { url: redis.url, urlEnv: 'REDIS_URL', prefix },
    pipelineIds: ['maps', 'docs'],
    workerTimeoutMs: 5_000,
    queueSize: 100,
    maxConcurrency: 2,
    retentionMs: 60_000,
    onExpire: async () => undefined,
    shared: { share: async (job) => job, remove: async () => undefined },
  });
type Host = Awaited<ReturnType<typeof openHost>>;

async function submit(host: Host, runId: string): Promise<void> {
  const pipelineId = runId.split('.', 1)[0] ?? '';
  const admission = await host.reserve({ pipelineId });
  await admission.accept({ runId, pipelineId, staged: null }, digestOf('{}'));
}

/** BullMQ's queue of the pipeline `maps`. */
function ticketsOf(t: Test, prefix: string): Queue {
  const connection = new Redis(redis.url);
  const tickets = new Queue('maps', { connection, prefix: `${prefix}:queue` });
  t.teardown(async () => {
    await tickets.close();
    connection.disconnect();
  });
  return tickets;
}

const never = new AbortController().signal;

t.test('the end of a run ends all waits for it, on any host', async (t) => {
  const [api, worker] = [await openHost('waits'), await openHost('waits')];
  t.teardown(() => Promise.all([api.close(0), worker.close(0)]));
  await submit(api, 'maps.1');
  const waits = [api, worker].flatMap((host) =>
    Array.from({ length: 25 }, () => host.untilFinished('maps.1', never)),
  );
  await worker.start(async () => runResult('ok'));
  await Promise.all(waits);
  t.match(await api.find('maps.1'), { status: 'succeeded' });
});

const retriesWith =
  (whileRetrying: 'pass' | 'wait', baseMs: number): RetrySettingsOf =>
  () => ({
    forMs: 3_600_000,
    whileRetrying,
    hasSingleTarget: false,
    pauses: { baseMs, capMs: baseMs, random: () => 0.5 },
  });
const away = async (): Promise<never> => {
  throw new WaybillError('storage_transient', 'the server is unreachable');
};
const untilRetrying = async (host: Host, runId: string): Promise<void> => {
  while (!isRetrying((await host.find(runId)) as RunRecord)) await systemClock.sleep(20);
};

for (const order of ['pass', 'wait'] as const)
  t.test(`a run that waits for a retry can be retried by another host (${order})`, async (t) => {
    const prefix = `retried-${order}`;
    const first = await openHost(prefix, undefined, retriesWith(order, 2_000));
    await submit(first, 'maps.1');
    await first.start(away);
    await untilRetrying(first, 'maps.1');
    await first.close(0);

    const second = await openHost(prefix, undefined, retriesWith(order, 2_000));
    t.teardown(() => second.close(0));
    t.match(await second.find('maps.1'), { attempt: 2, last_error: { code: 'storage_transient' } });
    await second.start(async () => runResult('ok'));
    await second.untilFinished('maps.1', never);
    t.match(await second.find('maps.1'), { status: 'succeeded', attempt: 2 });
  });

t.test('a host that publishes nothing can request an immediate retry', async (t) => {
  const retries = retriesWith('wait', 3_600_000);
  const [api, worker] = [
    await openHost('now', undefined, retries),
    await openHost('now', undefined, retries),
  ];
  t.teardown(() => Promise.all([api.close(0), worker.close(0)]));
  const begun: string[] = [];
  await worker.start(async ({ runId }) => {
    begun.push(runId);
    return begun.length === 1 ? away() : runResult('ok');
  });
  await submit(api, 'maps.1');
  await untilRetrying(api, 'maps.1');
  await submit(api, 'docs.1');
  await api.untilFinished('docs.1', never);
  t.same(begun, ['maps.1', 'docs.1']);
  await api.retryNow('maps.1');
  await api.untilFinished('maps.1', never);
  t.same(begun, ['maps.1', 'docs.1', 'maps.1']);
});

t.test('a ticket that returns before the retry is due is postponed again', async (t) => {
  const host = await openHost('early', undefined, retriesWith('pass', 3_600_000));
  t.teardown(() => host.close(0));
  const begun: string[] = [];
  await host.start(async ({ runId }) => {
    begun.push(runId);
    return begun.length === 1 ? away() : runResult('ok');
  });
  await submit(host, 'maps.1');
  await untilRetrying(host, 'maps.1');
  const tickets = ticketsOf(t, 'early');
  const ticket = async () => (await tickets.getJob('maps.1')) as Job;
  while (!(await (await ticket()).isDelayed())) await systemClock.sleep(20);
  await (await ticket()).promote();
  while (!(await (await ticket()).isDelayed())) await systemClock.sleep(20);
  t.same(begun, ['maps.1']);
  t.match(await host.find('maps.1'), { status: 'queued', attempt: 2 });
  await host.cancel('maps.1');
  t.equal(await tickets.getJob('maps.1'), undefined, 'its ticket is removed with it');
});

t.test('a pause applies to every host, including later ones', async (t) => {
  const [api, worker] = [await openHost('pauses'), await openHost('pauses')];
  const begun: string[] = [];
  const process = async ({ runId }: { runId: string }) => {
    begun.push(runId);
    return runResult('ok');
  };
  await worker.start(process);
  const paused = await api.pause('maps', 'moving house');
  t.same(await worker.pauses(), new Map([['maps', paused]]));
  for (const id of ['maps.1', 'maps.2', 'docs.1']) await submit(api, id);
  await api.untilFinished('docs.1', never);
  t.same(begun, ['docs.1']);
  await Promise.all([api.close(0), worker.close(0)]);
  const later = await openHost('pauses');
  t.teardown(() => later.close(0));
  await later.start(process);
  await submit(later, 'docs.2');
  await later.untilFinished('docs.2', never);
  t.same(await later.pauses(), new Map([['maps', paused]]));
  t.same(begun, ['docs.1', 'docs.2']);
  await later.resume('maps');
  await later.untilFinished('maps.2', never);
  t.same(begun, ['docs.1', 'docs.2', 'maps.1', 'maps.2']);
});

t.test('pausing while workers take runs loses none and keeps their order', async (t) => {
  const hosts = [await openHost('pausing'), await openHost('pausing')];
  t.teardown(() => Promise.all(hosts.map((host) => host.close(0))));
  const [api] = hosts as [Host, Host];
  const begun: string[] = [];
  for (const host of hosts)
    await host.start(async ({ runId }) => {
      begun.push(runId);
      return runResult('ok');
    });
  const ids = Array.from({ length: 20 }, (_, index) => `maps.${index + 1}`);
  for (const id of ids) {
    await submit(api, id);
    await api.pause('maps', null);
    await api.resume('maps');
  }
  for (const id of ids) {
    await api.untilFinished(id, never);
    t.match(await api.find(id), { status: 'succeeded' });
  }
  t.same(begun, ids);
});

t.test('checks for a pause when a run is taken', async (t) => {
  const link = await RedisLink.open({
    url: redis.url,
    urlEnv: 'REDIS_URL',
    prefix: 'taking',
    log: silentLog,
    clock: systemClock,
  });
  t.teardown(() => link.close());
  const store = new RunStore(link, 5_000);
  const now = new Date();
  const slot = { id: 'one', pipelineId: 'maps', key: '', rerunFailed: false };
  const job = { runId: 'maps.1', pipelineId: 'maps', staged: null } as const;
  t.equal(await store.admission.reserve(slot, { queueSize: 2, maxWaiting: 1 }), 'ok');
  const second = { ...slot, id: 'two' };
  t.equal(await store.admission.reserve(second, { queueSize: 2, maxWaiting: 1 }), 'pipeline_full');
  await store.admission.accept(slot, job, queuedRun(acceptedRun(job, now), now), digestOf('{}'), null);
  t.equal(await store.admission.reserve(second, { queueSize: 2, maxWaiting: 1 }), 'pipeline_full');
  await store.pause('maps', null, now);
  t.match(await store.claims.claim({ runId: 'maps.1', pipelineId: 'maps' }, 'worker', now), {
    outcome: 'paused',
  });
  t.match(await store.reads.find('maps.1'), { status: 'queued' });
  t.same(await store.reads.depth(), { reserved: 0, queued: 1, running: 0 });
  await store.resume('maps');
  t.match(await store.claims.claim({ runId: 'maps.1', pipelineId: 'maps' }, 'worker', now), {
    claimCount: 1,
  });
  t.same(await store.reads.depth(), { reserved: 0, queued: 0, running: 1 });
});

/** A worker whose runs end when they are stopped. `begun` resolves when the first has begun. */
async function stoppable(host: Host): Promise<{ begun: Promise<void>; reasons: unknown[] }> {
  let begin: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const reasons: unknown[] = [];
  await host.start(
    (_job, { signal }) =>
      new Promise((_resolve, reject) => {
        begin();
        signal.addEventListener('abort', () => {
          reasons.push(signal.reason);
          reject(signal.reason as Error);
        });
      }),
  );
  return { begun, reasons };
}

t.test('any host can cancel a run on any other', async (t) => {
  const [api, worker] = [await openHost('cancels'), await openHost('cancels')];
  t.teardown(() => Promise.all([api.close(0), worker.close(0)]));
  const { begun, reasons } = await stoppable(worker);
  await submit(api, 'maps.1');
  await begun;
  t.match(await api.cancel('maps.1'), { outcome: 'stopping' });
  await api.untilFinished('maps.1', never);
  t.match(await api.find('maps.1'), { status: 'failed', error: { code: 'cancelled' } });
  t.match(reasons, [{ code: 'cancelled' }]);
});

t.test('a run is stopped even if the message is lost, or its worker died', async (t) => {
  const [api, worker] = [await openHost('flags'), await openHost('flags')];
  const other = new Redis(redis.url);
  const link = await RedisLink.open({
    url: redis.url,
    urlEnv: 'REDIS_URL',
    prefix: 'flags',
    log: silentLog,
    clock: systemClock,
  });
  t.teardown(async () => {
    other.disconnect();
    link.close();
    await Promise.all([api.close(0), worker.close(0)]);
  });
  await submit(api, 'docs.1');
  const store = new RunStore(link, 5_000);
  t.match(
    await store.claims.claim({ runId: 'docs.1', pipelineId: 'docs' }, 'a worker that dies', new Date()),
    {
      isCancelled: false,
    },
  );
  t.match(await api.cancel('docs.1'), { outcome: 'stopping' }, 'it may stay');
  t.match(await store.claims.claim({ runId: 'docs.1', pipelineId: 'docs' }, 'another', new Date()), {
    isCancelled: true,
  });
  await submit(api, 'maps.1');
  const { begun, reasons } = await stoppable(worker);
  await begun;
  await other.hset('flags:run:maps.1', 'cancel', 1);
  for (const id of ['docs.1', 'maps.1']) {
    await api.untilFinished(id, never);
    t.match(await api.find(id), { status: 'failed', error: { code: 'cancelled' } }, id);
  }
  t.equal(reasons.length, 1, 'one was running, the other never started again');
});

t.test('an epoch that another program has overwritten keeps no run from being stopped', async (t) => {
  const worker = await openHost('epoch');
  const other = new Redis(redis.url);
  t.teardown(async () => {
    other.disconnect();
    await worker.close(0);
  });
  const { begun } = await stoppable(worker);
  await submit(worker, 'maps.1');
  await begun;
  await other
    .multi()
    .del('epoch:epoch')
    .lpush('epoch:epoch', 'x')
    .hset('epoch:run:maps.1', 'cancel', 1)
    .exec();
  await worker.untilFinished('maps.1', never);
  t.match(await worker.find('maps.1'), { status: 'failed', error: { code: 'cancelled' } });
});

t.test('a run of a dead worker that the next worker returns waits like one that never ran', async (t) => {
  const [api, worker] = [await openHost('returned'), await openHost('returned')];
  const link = await RedisLink.open({
    url: redis.url,
    urlEnv: 'REDIS_URL',
    prefix: 'returned',
    log: silentLog,
    clock: systemClock,
  });
  t.teardown(async () => {
    link.close();
    await api.close(0);
  });
  await submit(api, 'maps.1');
  const queued = await api.find('maps.1');
  const store = new RunStore(link, 5_000);
  const taken = await store.claims.claim(
    { runId: 'maps.1', pipelineId: 'maps' },
    'a worker that dies',
    new Date(),
  );
  if (taken.outcome !== 'claimed') throw new Error('it was not claimed');
  const started = startedRun(taken.record, new Date());
  await store.claims.save(
    'a worker that dies',
    progressedRun(
      started,
      {
        type: 'planned',
        destinationId: 'web',
        destinationPath: 'x',
        action: 'publish_new',
        outputs: 3,
        bytes: 9,
      },
      new Date(),
    ),
  );
  const { begun } = await stoppable(worker);
  await begun;
  t.same(await worker.close(0), { unfinished: ['maps.1'] });
  t.same(await api.find('maps.1'), queued);
});

t.test('gives the next worker of a run its start time, to send missing events', async (t) => {
  const [api, worker] = [await openHost('begun'), await openHost('begun')];
  const link = await RedisLink.open({
    url: redis.url,
    urlEnv: 'REDIS_URL',
    prefix: 'begun',
    log: silentLog,
    clock: systemClock,
  });
  t.teardown(async () => {
    link.close();
    await Promise.all([api.close(0), worker.close(0)]);
  });
  await submit(api, 'docs.1');
  await submit(api, 'maps.1');
  const first = new Date('2026-11-20T02:04:34.123Z');
  const store = new RunStore(link, 5_000);
  t.match(await store.claims.claim({ runId: 'docs.1', pipelineId: 'docs' }, 'a worker that dies', first), {
    begunAt: null,
  });
  const begun = new Map<string, string | undefined>();
  await worker.start(async ({ runId, begunAt }) => {
    begun.set(runId, begunAt);
    return runResult('ok');
  });
  for (const id of ['docs.1', 'maps.1']) await api.untilFinished(id, never);
  t.same([...begun].sort(), [
    ['docs.1', first.toISOString()],
    ['maps.1', undefined],
  ]);
});

t.test('the end of a run is recorded only after its events are stored', async (t) => {
  let keep: () => void = () => undefined;
  const kept = new Promise<void>((resolve) => (keep = resolve));
  let asked: () => void = () => undefined;
  const asking = new Promise<void>((resolve) => (asked = resolve));
  const worker = await openHost('flushed', async () => {
    asked();
    await kept;
  });
  t.teardown(() => worker.close(0));
  await submit(worker, 'maps.1');
  await worker.start(async () => runResult('ok'));
  await asking;
  await systemClock.sleep(200);
  t.match(await worker.find('maps.1'), { status: 'running' });
  keep();
  await worker.untilFinished('maps.1', never);
  t.match(await worker.find('maps.1'), { status: 'succeeded' });
});

t.test('a run cancelled while it waits has no ticket any more', async (t) => {
  const api = await openHost('tickets');
  t.teardown(() => api.close(0));
  await submit(api, 'maps.1');
  const tickets = ticketsOf(t, 'tickets');
  t.equal(await tickets.getWaitingCount(), 1);
  t.match(await api.cancel('maps.1'), { outcome: 'forgotten' });
  t.equal(await tickets.getWaitingCount(), 0);
});

t.test('a watch shows changes of other hosts, and notices replaced data', async (t) => {
  const [api, worker] = [await openHost('watched'), await openHost('watched')];
  t.teardown(() => Promise.all([api.close(0), worker.close(0)]));
  let ring: () => void = () => undefined;
  const watch = api.watch(() => ring());
  const rung = (): Promise<void> => new Promise((resolve) => (ring = resolve));
  const beginning = await watch.cursor();
  const query = { limit: 100, wants: () => true };
  for (let run = 1; run <= 20; run++) await submit(worker, `maps.${run}`);
  await worker.start(async () => runResult('ok'));
  for (;;) {
    const changed = rung();
    const page = await watch.after(beginning, query);
    const done = page?.changes.filter(({ record }) => record.status === 'succeeded') ?? [];
    if (done.length === 20) break;
    await changed;
  }
  const changed = rung();
  await redis.cli('del', ...['epoch', 'revision', 'changed'].map((key) => `watched:${key}`));
  await changed;
  t.equal(await watch.after(beginning, query), null, 'a cursor of deleted data');
  t.match(await watch.after(await watch.cursor(), query), { changes: { length: 0 }, more: false });
  watch.close();
});

t.test('lets any host rerun a failed run, once, with the archive of the last one', async (t) => {
  const removed: string[] = [];
  const open = () =>
    BullmqQueue.open({
      clock: systemClock,
      log: silentLog,
      redis: { url: redis.url, urlEnv: 'REDIS_URL', prefix: 'reruns' },
      pipelineIds: ['maps'],
      workerTimeoutMs: 60_000,
      queueSize: 100,
      maxConcurrency: 2,
      retentionMs: 60_000,
      onExpire: async () => undefined,
      discard: async (job) => void removed.push(job.runId),
      shared: {
        share: async (job, name) =>
          job.staged === null
            ? job
            : { ...job, staged: '', archive: { name, size: 7, digest: digestOf('A') } },
        remove: async () => undefined,
      },
    });
  const hosts = [await open(), await open()];
  const [api, other] = hosts as [Host, Host];
  t.teardown(() => Promise.all(hosts.map((host) => host.close(0))));
  const jobs: unknown[] = [];
  await other.start(async (job) => {
    jobs.push(job);
    return runResult(jobs.length === 1 ? 'failed' : 'ok');
  });
  const admission = await api.reserve({ pipelineId: 'maps' });
  const job = { runId: 'maps.1', pipelineId: 'maps', staged: '/scratch/x', bundlePath: '.' };
  await admission.accept(job, digestOf('A'));
  await api.untilFinished('maps.1', never);
  const answers = await Promise.all(
    hosts.flatMap((host, index) => [1, 2].map((n) => host.rerun('maps.1', `maps.${2 * index + n + 1}`))),
  );
  t.equal(answers.filter(({ replayed }) => !replayed).length, 1);
  const started = new Set(answers.map(({ record }) => record.run_id));
  t.equal(started.size, 1, 'all get the run that was started');
  const [again = 'none'] = started;
  await api.untilFinished(again, never);
  t.match(await api.find(again), { status: 'succeeded', rerun_of: 'maps.1' });
  t.same(jobs[1], { ...(jobs[0] as object), runId: again, rerunOf: 'maps.1' });
  t.match(await other.bundleUsage(), { bundles: 1 });
  t.same(removed, []);
});

t.test('three hosts start one run per tick, and catch up on missed ones once or not at all', async (t) => {
  const most = howMany(1_000, 40);
  t.comment(`${share(most, 1_000)} ticks`);
  for (const catchUp of ['none', 'once'] as const) {
    const hosts = await Promise.all([1, 2, 3].map(() => openHost(`ticks-${catchUp}`)));
    t.teardown(() => Promise.all(hosts.map((host) => host.close(0))));
    const ticks: string[] = [];
    for (const host of hosts)
      await host.start(async (job) => {
        if (job.staged === null && job.trigger?.kind === 'schedule') ticks.push(job.trigger.tick);
        return runResult('ok');
      });
    const queue: JobQueue = hosts[0]!;
    const idle = () =>
      until(
        () => queue.depth(),
        ({ queued, running }) => queued + running === 0,
      );
    const clock = manualClock(new Date('2026-11-22T15:00:30Z'));
    const tally = newTally();
    const openAll = () =>
      hosts.map((host) =>
        openScheduler(host, clock, [scheduled('*/5 * * * *', { catchUp, jitterMs: 20_000 })], tally),
      );
    let schedulers = openAll();
    await until(
      () => queue.triggers.last('maps', 'schedule'),
      (last) => last !== null,
    );
    const ticked = catchUp === 'none' ? most : 5;
    for (let tick = 1; tick <= ticked; tick++) {
      await clock.advance(300_000);
      await until(
        () => ticks.length,
        (count) => count >= tick,
      );
      await idle();
    }
    t.equal(ticks.length, ticked);
    t.equal(new Set(ticks).size, ticked, 'none twice');
    t.equal(
      Date.parse(ticks.at(-1) ?? '') - Date.parse(ticks[0] ?? ''),
      (ticked - 1) * 300_000,
      'none omitted',
    );
    t.same(tally.counts, { started: ticked }, 'each is counted by one host');

    await Promise.all(schedulers.map((scheduler) => scheduler.close()));
    await clock.advance(10 * 300_000 + 150_000);
    schedulers = openAll();
    const expected =
      catchUp === 'none' ? { started: ticked, 'missed down': 10 } : { started: ticked + 1, 'missed down': 9 };
    await until(
      () => tally.counts,
      (counts) => Object.keys(counts).length === 2,
    );
    await idle();
    await clock.advance(1_000);
    t.match(tally.counts, expected, catchUp);
    await Promise.all(schedulers.map((scheduler) => scheduler.close()));
  }
});

t.test('a worker finds a run without receiving a message', async (t) => {
  const [api, worker] = [await openHost('no-messages'), await openHost('no-messages')];
  const other = new Redis(redis.url);
  await worker.start(async () => runResult('ok'));
  // Messages are lost while no host listens. Each connection is restored soon after it was cut.
  const cut = () => other.call('CLIENT', 'KILL', 'TYPE', 'pubsub').catch(() => undefined);
  const cutting = systemClock.every(10, () => void cut());
  t.teardown(async () => {
    cutting.cancel();
    other.disconnect();
    await Promise.all([api.close(0), worker.close(0)]);
  });
  await cut();
  await submit(api, 'maps.1');
  await api.untilFinished('maps.1', never);
  t.match(await api.find('maps.1'), { status: 'succeeded' });
});

t.test('the end of a run wakes other hosts only if another run waits in its pipeline', async (t) => {
  const [api, worker] = [await openHost('heard'), await openHost('heard')];
  const listener = new Redis(redis.url);
  t.teardown(async () => {
    listener.disconnect();
    await Promise.all([api.close(0), worker.close(0)]);
  });
  const received: string[] = [];
  listener.on('pmessage', (_pattern: string, _channel: string, pipelineId: string) =>
    received.push(pipelineId),
  );
  await listener.psubscribe('*heard*:wake');
  const other = new Redis(redis.url);
  t.teardown(() => other.disconnect());
  /** The messages up to now: Redis delivers the message published here after all others. */
  const messages = async (): Promise<string[]> => {
    await other.publish('heard:echo:wake', 'all');
    await until(
      () => received,
      (seen) => seen.includes('all'),
    );
    return received.splice(0).filter((message) => message !== 'all');
  };
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  const begun: string[] = [];
  await worker.start(async ({ runId }) => {
    begun.push(runId);
    if (runId === 'maps.1') await released;
    return runResult('ok');
  });
  await submit(api, 'maps.1');
  await until(
    () => begun,
    (seen) => seen.includes('maps.1'),
  );
  await submit(api, 'maps.2');
  await submit(api, 'docs.1');
  await api.untilFinished('docs.1', never);
  t.same((await messages()).sort(), ['docs', 'maps', 'maps'], 'adding a run sends a message');
  release();
  await api.untilFinished('maps.2', never);
  await worker.close(0);
  t.same(await messages(), ['maps'], 'one ended while another waited');
  t.same(begun, ['maps.1', 'docs.1', 'maps.2']);
});
