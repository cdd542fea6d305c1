import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { errorRecord, WaybillError } from '../../../src/core/lib/errors.ts';
import { type Log, silentLog } from '../../../src/core/lib/log.ts';
import type { BullmqQueueOptions } from '../../../src/workers/bullmq/bullmq-options.ts';
import { BullmqQueue } from '../../../src/workers/bullmq/bullmq-queue.ts';
import type { JobResult } from '../../../src/workers/queue/job.ts';
import type { RunObserver } from '../../../src/workers/queue/run-observer.ts';
import { runResult } from '../../contract/queue.ts';
import { freePort } from '../../services/free-port.ts';
import { type RedisService, startRedis } from '../../services/redis.ts';

async function service(t: Test, args: readonly string[] = []): Promise<RedisService> {
  const redis = await startRedis({ args });
  t.teardown(() => redis.close());
  return redis;
}

/** Longer than a loaded machine may delay a host's next sign of life. */
const workerTimeoutMs = 4_000;

/** One host's queue. */
async function host(
  t: Test,
  redis: RedisService,
  options: Partial<BullmqQueueOptions> = {},
): Promise<BullmqQueue> {
  const queue = await BullmqQueue.open({ ...optionsOf(redis), ...options });
  t.teardown(() => queue.close(0));
  return queue;
}

const optionsOf = ({ url }: RedisService): BullmqQueueOptions => ({
  clock: systemClock,
  log: silentLog,
  redis: { url, urlEnv: 'REDIS_URL', prefix: 'waybill' },
  pipelineIds: ['maps', 'docs'],
  queueSize: 10,
  maxConcurrency: 2,
  retentionMs: 60_000,
  workerTimeoutMs,
  shared: { share: async (job) => job, remove: async () => undefined },
  onExpire: async () => undefined,
});

async function submit(
  queue: BullmqQueue,
  runId: string,
  idempotency?: { caller: string; key: string },
): Promise<{ replayed: boolean; record: { run_id: string } }> {
  const [pipelineId = ''] = runId.split('.');
  const admission = await queue.reserve({
    pipelineId,
    ...(idempotency === undefined ? {} : { idempotency }),
  });
  return admission.accept({ runId, pipelineId, staged: '/x', bundlePath: '.' }, digestOf('A'));
}

/** Polls until the condition is true. The test's own timeout ends the loop. */
async function until<T>(look: () => Promise<T>, right: (seen: T) => boolean): Promise<T> {
  for (;;) {
    const seen = await look().catch(() => undefined);
    if (seen !== undefined && right(seen)) return seen;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function gate(): {
  began: Promise<string>;
  process: (job: { runId: string }) => Promise<JobResult>;
  open: () => void;
  runs: string[];
} {
  let begin: (runId: string) => void = () => undefined;
  let open: () => void = () => undefined;
  const began = new Promise<string>((resolve) => (begin = resolve));
  const opened = new Promise<void>((resolve) => (open = resolve));
  const runs: string[] = [];
  const process = async ({ runId }: { runId: string }): Promise<JobResult> => {
    runs.push(runId);
    begin(runId);
    await opened;
    return runResult('ok');
  };
  return { began, process, open, runs };
}

t.test(
  'finishes a job while Redis is killed, without a takeover, and records its outcome afterwards',
  async (t) => {
    const redis = await service(t, ['--appendfsync', 'always']);
    const [one, two] = [await host(t, redis), await host(t, redis)];
    const [first, second] = [gate(), gate()];
    await one.start(first.process);
    await submit(one, 'maps.1');
    await first.began;
    await until(
      () => one.find('maps.1'),
      (record) => record?.status === 'running',
    );
    await two.start(second.process);
    await submit(two, 'maps.2');
    await redis.stop('SIGKILL');
    await t.rejects(one.reserve({ pipelineId: 'maps' }), { code: 'queue_unavailable' });
    await t.rejects(one.depth(), { code: 'queue_unavailable' });
    await t.rejects(one.find('maps.1'), { code: 'queue_unavailable' });
    // Longer than the timeout of silent workers: its lock has expired when Redis is back.
    await systemClock.sleep(workerTimeoutMs + 500);
    await redis.start();
    t.match(
      await until(
        () => two.find('maps.1'),
        (record) => record !== undefined,
      ),
      { status: 'running' },
    );
    // Longer than the others wait before they search for jobs of dead workers.
    await systemClock.sleep(workerTimeoutMs + 1_500);
    t.same(
      [first.runs, second.runs],
      [['maps.1'], []],
      'it was not given to another host, and the next one did not begin',
    );
    second.open();
    await redis.stop('SIGKILL');
    first.open();
    await systemClock.sleep(300);
    await redis.start();
    for (const id of ['maps.1', 'maps.2'])
      t.match(
        await until(
          () => two.find(id),
          (record) => record?.finished_at != null,
        ),
        { status: 'succeeded' },
      );
    t.equal([...first.runs, ...second.runs].filter((id) => id === 'maps.1').length, 1, 'it ran once');
  },
);

/** Records the metrics of one host. */
function counter(counts: string[]): RunObserver {
  return {
    started: ({ pipelineId }) => counts.push(`${pipelineId} started`),
    retried: () => undefined,
    superseded: () => undefined,
    rejected: () => undefined,
    finished: ({ pipelineId, succeeded, result }) =>
      counts.push(
        `${pipelineId} ${succeeded ? 'succeeded' : 'failed'}${result === null ? ', no result' : ''}`,
      ),
  };
}

t.test('slots and keys of all hosts share one limit', async (t) => {
  const redis = await service(t);
  const [one, two] = [await host(t, redis, { queueSize: 2 }), await host(t, redis, { queueSize: 2 })];
  const idempotency = { caller: 'ci', key: 'k' };
  const admission = await one.reserve({ pipelineId: 'maps', idempotency });
  await t.rejects(two.reserve({ pipelineId: 'maps', idempotency }), { code: 'idempotency_in_progress' });
  const races = await Promise.allSettled(
    Array.from({ length: 10 }, (_, index) => [one, two][index % 2]!.reserve({ pipelineId: 'maps' })),
  );
  t.equal(races.filter(({ status }) => status === 'fulfilled').length, 1, 'one of two slots was left');
  await admission.accept(
    { runId: 'maps.1', pipelineId: 'maps', staged: '/x', bundlePath: '.' },
    digestOf('A'),
  );
  for (const race of races) if (race.status === 'fulfilled') await race.value.release();
  t.match(await submit(two, 'maps.2', idempotency), { replayed: true, record: { run_id: 'maps.1' } });
});

t.test('one of many hosts that stage the same key concurrently is accepted', async (t) => {
  const redis = await service(t);
  const hosts = await Promise.all([1, 2, 3].map(() => host(t, redis, { queueSize: 100 })));
  const answers = await Promise.allSettled(
    Array.from({ length: 30 }, (_, index) =>
      submit(hosts[index % 3]!, `maps.${index}`, { caller: 'ci', key: 'k' }),
    ),
  );
  const fresh = answers.filter((answer) => answer.status === 'fulfilled' && !answer.value.replayed);
  t.equal(fresh.length, 1);
  for (const answer of answers)
    if (answer.status === 'rejected') t.match(answer.reason, { code: 'idempotency_in_progress' });
  t.match(await hosts[0]!.depth(), { reserved: 0, queued: 1 });
});

t.test(
  'removes shared staged files that were never accepted, on any host, and keeps accepted ones',
  async (t) => {
    const redis = await service(t);
    const removed: string[] = [];
    const remove = async (name: string): Promise<void> => void removed.push(name);
    const one = await host(t, redis, {
      shared: { share: () => Promise.reject(new Error('the disk is full')), remove },
    });
    await t.rejects(submit(one, 'maps.1'), { message: 'the disk is full' });
    let kept = '';
    const two = await host(t, redis, {
      shared: {
        share: async (job, name) => {
          kept = name;
          return job;
        },
        remove,
      },
    });
    await submit(two, 'maps.2');
    const [left = ''] = (await redis.cli('ZRANGE', 'waybill:staging', '0', '-1')).split('\n');
    t.match(left, /^upload-/);
    // The reservation has expired.
    await redis.cli('ZADD', 'waybill:staging', '1', left);
    await until(
      async () => removed,
      (names) => names.includes(left),
    );
    t.notOk(removed.includes(kept));
    t.equal(await redis.cli('ZCARD', 'waybill:staging'), '0');
  },
);

t.test('rejects a Redis that evicts keys, and warns about one that could', async (t) => {
  const evicting = await service(t, ['--maxmemory', '50mb', '--maxmemory-policy', 'allkeys-lru']);
  await t.rejects(host(t, evicting), { code: 'config_invalid', message: /allkeys-lru/ });
  const unlimited = await service(t, ['--maxmemory-policy', 'volatile-lru', '--appendonly', 'no']);
  const warnings: string[] = [];
  const log: Log = { ...silentLog, warn: (_fields, message) => void warnings.push(message) };
  await host(t, unlimited, { log });
  t.match(warnings, [/eviction policy/, /appendonly/]);
});

t.test('reports an unreachable Redis or an invalid URL without the URL', async (t) => {
  const gone = await service(t);
  await gone.stop();
  const url = `redis://:secret-word@127.0.0.1:${gone.port}`;
  const refusal = await host(t, { ...gone, url }).catch((error: unknown) => error as Error);
  t.match(refusal, { code: 'queue_unavailable', message: /REDIS_URL.*connection refused/ });
  t.notOk(JSON.stringify([refusal, (refusal as Error).stack]).includes('secret-word'));
  await t.rejects(host(t, { ...gone, url: 'http://secret-word' }), {
    code: 'secrets_invalid',
    message: /^((?!secret-word).)*$/,
  });
  for (const isCluster of [false, true]) {
    const redis = {
      ...{ url: 'redis://:50%secret-word@127.0.0.1', urlEnv: 'REDIS_URL', prefix: 'w' },
      isCluster,
    };
    const rejected = await BullmqQueue.open({ ...optionsOf(gone), redis }).catch((error: unknown) => error);
    t.match(rejected, { code: 'secrets_invalid', message: 'the value of REDIS_URL is not a Redis URL' });
    t.notOk(JSON.stringify([rejected, (rejected as Error).stack]).includes('secret-word'));
  }
});

t.test(
  'an interrupted run of a stopping host returns to the head of its pipeline, and another host executes it',
  async (t) => {
    const redis = await service(t);
    const [one, two] = [await host(t, redis), await host(t, redis)];
    let begin: () => void = () => undefined;
    const began = new Promise<void>((resolve) => (begin = resolve));
    const [ofOne, ofTwo]: [string[], string[]] = [[], []];
    await one.start(async (_job, { signal }) => {
      begin();
      return new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error)),
      );
    }, counter(ofOne));
    await submit(one, 'maps.1');
    await submit(one, 'maps.2');
    await began;
    t.same(await one.close(0), { unfinished: ['maps.1'] });
    t.match(await two.find('maps.1'), { status: 'queued', started_at: null, error: null });
    const runs: string[] = [];
    await two.start(async ({ runId }) => {
      runs.push(runId);
      return runResult('ok');
    }, counter(ofTwo));
    for (const id of ['maps.1', 'maps.2'])
      t.match(
        await until(
          () => two.find(id),
          (record) => record?.finished_at != null,
        ),
        { status: 'succeeded' },
      );
    t.same(runs, ['maps.1', 'maps.2']);
    await until(
      async () => ofTwo.length,
      (length) => length >= 4,
    );
    t.same(ofOne, ['maps started'], 'a returned run has not ended here');
    t.same(ofTwo, ['maps started', 'maps succeeded', 'maps started', 'maps succeeded']);
  },
);

t.test("a run that is retried because of a dead worker's lease, or is taken over, counts once", async (t) => {
  const redis = await service(t);
  const slept: number[] = [];
  const sleep = (ms: number, signal?: AbortSignal): Promise<void> => {
    slept.push(ms);
    return systemClock.sleep(ms === 5_000 ? 1 : ms, signal);
  };
  const queue = await host(t, redis, { clock: { ...systemClock, sleep } });
  await submit(queue, 'maps.1');
  await redis.cli('HSET', 'waybill:run:maps.1', 'takes', '1');
  const busy = runResult('failed');
  busy.run.pipelines[0]!.error = errorRecord(
    new WaybillError('destination_busy', 'the lease of a dead worker'),
  );
  const results = [busy, busy, runResult('ok')];
  const counts: string[] = [];
  await queue.start(async () => results.shift()!, counter(counts));
  await submit(queue, 'docs.1');
  results.push(runResult('ok'));
  await until(
    async () => counts.length,
    (length) => length >= 3,
  );
  t.same(results, []);
  t.equal(slept.filter((ms) => ms === 5_000).length, 2, 'it was attempted three times');
  t.same(counts.toSorted(), ['docs started', 'docs succeeded', 'maps succeeded']);

  await submit(queue, 'maps.2');
  const [other, stolen] = [gate(), [] as string[]];
  await queue.close(10_000);
  const slow = await host(t, redis);
  await slow.start(other.process, counter(stolen));
  await other.began;
  await redis.cli('HSET', 'waybill:run:maps.2', 'owner', 'another');
  other.open();
  await slow.close(10_000);
  t.same(stolen, ['maps started'], 'the outcome of a worker that lost the run is dropped, and not counted');
});

t.test('a run that crashes several workers fails finally, and the next one starts', async (t) => {
  const redis = await service(t);
  const queue = await host(t, redis);
  await submit(queue, 'maps.1');
  await submit(queue, 'maps.2');
  await redis.cli('HSET', 'waybill:run:maps.1', 'takes', '5');
  const runs: string[] = [];
  const counts: string[] = [];
  await queue.start(async ({ runId }) => {
    runs.push(runId);
    return runResult('ok');
  }, counter(counts));
  const over = (id: string) =>
    until(
      () => queue.find(id),
      (record) => record?.finished_at != null,
    );
  t.match(await over('maps.1'), { status: 'failed', error: { code: 'worker_failed' } });
  t.match(await over('maps.2'), { status: 'succeeded' });
  t.same(runs, ['maps.2']);
  await until(
    async () => counts.length,
    (length) => length >= 3,
  );
  t.same(counts, ['maps failed, no result', 'maps started', 'maps succeeded']);
});

t.test('takes over the run of a dead worker even if some calls keep failing', async (t) => {
  const redis = await service(t);
  // Its worker renews nothing, like a dead one.
  const silent = { ...systemClock, every: () => ({ cancel: () => undefined }) };
  const [one, two] = [await host(t, redis, { clock: silent }), await host(t, redis)];
  const [first, second] = [gate(), gate()];
  await one.start(first.process);
  await submit(one, 'maps.1');
  await first.began;
  await redis.cli('lpush', 'waybill:kept-bytes', 'x');
  const failing = setInterval(() => void two.bundleUsage().catch(() => undefined), 200);
  t.teardown(() => clearInterval(failing));
  await t.rejects(two.bundleUsage(), { code: 'queue_unavailable' });
  await two.start(second.process);
  t.equal(await second.began, 'maps.1');
  await redis.cli('del', 'waybill:kept-bytes');
  second.open();
  first.open();
});

t.test('rejects a Redis Cluster at the start', async (t) => {
  // The default bus port, 10000 above the port, may be an ephemeral port in use.
  const busPort = String(await freePort());
  const cluster = await service(t, ['--cluster-enabled', 'yes', '--cluster-port', busPort]);
  await t.rejects(host(t, cluster), {
    code: 'config_invalid',
    message: /Redis Cluster/,
    hint: /redis_cluster: true/,
  });
});

t.test('a Redis that stores nothing is not ready, and the error and the log name the cause', async (t) => {
  const redis = await service(t);
  const warnings: unknown[] = [];
  const log: Log = { ...silentLog, warn: (fields, message) => void warnings.push({ ...fields, message }) };
  const queue = await host(t, redis, { log });
  await queue.check();
  const causes: [string[], string[], RegExp][] = [
    [['CONFIG', 'SET', 'maxmemory', '1'], ['CONFIG', 'SET', 'maxmemory', '0'], /out of memory/],
    [['REPLICAOF', '127.0.0.1', '1'], ['REPLICAOF', 'NO', 'ONE'], /read-only replica/],
    [
      ['ACL', 'SETUSER', 'default', '-set', '-evalsha', '-eval'],
      ['ACL', 'SETUSER', 'default', '+@all'],
      /lacks a permission/,
    ],
  ];
  for (const [begin, end, message] of causes) {
    await redis.cli(...begin);
    await until(
      () =>
        queue.check().then(
          () => '',
          (error: unknown) => String(error),
        ),
      (seen) => message.test(seen),
    );
    const refused = await submit(queue, 'maps.1').catch((error: unknown) => error);
    t.match(refused, { code: 'queue_unavailable', message });
    t.match(warnings.at(-1), { reason: message });
    await redis.cli(...end);
    await until(
      () => queue.check().then(() => true),
      (seen) => seen,
    );
  }
});

t.test('logs that Redis lost its data, and accepts and runs new uploads afterwards', async (t) => {
  const redis = await service(t);
  const errors: string[] = [];
  const log: Log = { ...silentLog, error: (_, message) => void errors.push(message) };
  const queue = await host(t, redis, { log });
  await submit(queue, 'maps.1');
  await until(
    () => redis.cli('EXISTS', 'waybill:epoch'),
    (seen) => seen.trim() === '1',
  );
  t.same(errors, []);
  await redis.cli('FLUSHALL');
  await until(
    async () => errors,
    ({ length }) => length > 0,
  );
  t.match(errors[0], /^Redis has lost its data: queued runs are gone/);
  t.equal(await queue.find('maps.1'), undefined);
  await queue.start(async () => runResult('ok'));
  await submit(queue, 'maps.2');
  await until(
    () => queue.find('maps.2'),
    (seen) => seen?.finished_at !== null,
  );
  t.equal(errors.length, 1, 'it is logged once');
});
