import { once } from 'node:events';
import { Cluster } from 'ioredis';
import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { BullmqQueue } from '../../../src/workers/bullmq/bullmq-queue.ts';
import { RedisLink } from '../../../src/workers/bullmq/link.ts';
import { queueContract, runResult } from '../../contract/queue.ts';
import { startRedis } from '../../services/redis.ts';
import { startRedisCluster } from '../../services/redis-groups.ts';

t.setTimeout(0);

const cluster = await startRedisCluster({ replicas: 0 });
t.teardown(() => cluster.close());
const server = { url: cluster.url, urlEnv: 'REDIS_URL', isCluster: true };

let opened = 0;

function open(settings: object = {}): Promise<BullmqQueue> {
  return BullmqQueue.open({
    clock: systemClock,
    log: silentLog,
    redis: { ...server, prefix: `cluster-${opened}` },
    pipelineIds: ['maps', 'docs', 'a', 'b', 'c', 'd', 'e'],
    workerTimeoutMs: 5_000,
    queueSize: 100,
    maxConcurrency: 10,
    retentionMs: 60_000,
    onExpire: async () => undefined,
    shared: { share: async (job) => job, remove: async () => undefined },
    ...settings,
  });
}

t.test('passes the contract in a Cluster', async (t) => {
  queueContract(t, async (settings) => {
    opened += 1;
    return { queue: await open(settings), elapse: (ms) => systemClock.sleep(ms), waitingSurvives: true };
  });
});

t.test('runs of a moving slot wait, and all finish once, in order', async (t) => {
  opened += 1;
  const queue = await open();
  t.teardown(() => queue.close(0));
  const order: string[] = [];
  const runIds = Array.from({ length: 30 }, (_, index) => `maps.${index}`);
  const submitAll = async (ids: readonly string[]): Promise<void> => {
    for (const runId of ids) {
      const job = { runId, pipelineId: 'maps', staged: null };
      // As a client repeats with its key. If a response is lost, Redis may still reserve the key for a
      // moment.
      const repeatable = ['queue_unavailable', 'idempotency_in_progress'];
      const idempotency = { caller: 'ci', key: runId, rerunFailed: false };
      for (;;)
        try {
          const admission = await queue.reserve({ pipelineId: 'maps', idempotency });
          await admission.accept(job, digestOf('{}'));
          break;
        } catch (error) {
          if (!repeatable.includes((error as { code: string }).code)) throw error;
        }
    }
  };
  await submitAll(runIds.slice(0, 10));
  await queue.start(async (job) => {
    order.push(job.runId);
    return runResult('ok');
  });
  const rest = submitAll(runIds.slice(10));
  for (const key of [`{cluster-${opened}}:`, `{cluster-${opened}:maps}:`])
    await cluster.move(key, () => systemClock.sleep(500));
  await rest;
  const never = new AbortController().signal;
  for (const runId of runIds) await queue.untilFinished(runId, never);
  t.same(order, runIds);
});

t.test('no script runs on part of a slot', async (t) => {
  const link = await RedisLink.open({ ...server, prefix: 'part', clock: systemClock, log: silentLog });
  t.teardown(() => link.close());
  for (let index = 0; index < 30; index += 1)
    await link.run('events/keep', {
      notifier: `n${index}`,
      event: 'e',
      happened: 1,
      undelivered: '{}',
      limit: 10,
    });
  await cluster.move('{part}:', async () => {
    await t.rejects(link.run('events/counts', {}), { code: 'queue_unavailable' });
  });
  const counts = (await link.run('events/counts', {})) as unknown[];
  t.equal(counts.length, 60);
});

t.test('a connection that closes while a slot moves does not end the process', async (t) => {
  const link = await RedisLink.open({ ...server, prefix: 'closes', clock: systemClock, log: silentLog });
  t.teardown(() => link.close());
  if (!(link.redis instanceof Cluster)) throw new TypeError('a Cluster');
  for (const node of link.redis.nodes('master')) {
    const ended = once(node, 'end');
    node.disconnect();
    await ended;
    // Like ioredis, ignores the promise.
    void node.asking();
  }
});

t.test('a Redis and a Cluster are not confused', async (t) => {
  const single = await startRedis();
  t.teardown(() => single.close());
  const options = {
    urlEnv: 'REDIS_URL',
    prefix: 'none',
    clock: systemClock,
    log: silentLog,
    withinMs: 3_000,
  };
  await t.rejects(RedisLink.open({ ...options, url: cluster.url }), {
    code: 'config_invalid',
    hint: /redis_cluster: true/,
  });
  await t.rejects(RedisLink.open({ ...options, url: single.url, isCluster: true }), {
    code: 'config_invalid',
  });
});
