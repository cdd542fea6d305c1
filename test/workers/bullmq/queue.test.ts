import { Redis } from 'ioredis';
import t from 'tap';
import { systemClock } from '../../../src/core/clock.ts';
import { digestOf } from '../../../src/core/digest.ts';
import { silentLog } from '../../../src/core/log.ts';
import { bullmqQueue } from '../../../src/workers/bullmq/queue.ts';
import { queueContract, runResult } from '../../contract/queue.ts';
import { startRedis } from '../../services/redis.ts';

const redis = await startRedis();
t.teardown(() => redis.close());

let opened = 0;
queueContract(t, async (settings) => {
  opened += 1;
  const queue = await bullmqQueue({
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

t.test('waits for one run cost one question, and end on whichever host they are', async (t) => {
  const open = () =>
    bullmqQueue({
      clock: systemClock,
      log: silentLog,
      redis: { url: redis.url, urlEnv: 'REDIS_URL', prefix: 'waits' },
      pipelineIds: ['maps'],
      workerTimeoutMs: 5_000,
      queueSize: 10,
      maxConcurrency: 1,
      retentionMs: 60_000,
      onExpire: async () => undefined,
      shared: { share: async (job) => job, remove: async () => undefined },
    });
  const [api, worker] = [await open(), await open()];
  const other = new Redis(redis.url);
  t.teardown(async () => {
    other.disconnect();
    await Promise.all([api.close(0), worker.close(0)]);
  });
  const admission = await api.reserve({ pipelineId: 'maps' });
  await admission.accept({ runId: 'maps.1', pipelineId: 'maps', staged: null }, digestOf('{}'));
  const monitor = await other.monitor();
  const questions: string[][] = [];
  monitor.on('monitor', (_time: string, args: string[]) => {
    if (args[0] === 'HGET' && args.at(-1) === 'state') questions.push(args);
  });
  const never = new AbortController().signal;
  const begun = performance.now();
  const waits = Array.from({ length: 50 }, () => api.untilFinished('maps.1', never));
  await systemClock.sleep(300);
  await worker.start(async () => runResult('ok'));
  await Promise.all(waits);
  const most = Math.ceil((performance.now() - begun) / 200) + 1;
  monitor.disconnect();
  t.match(await api.find('maps.1'), { status: 'succeeded' });
  t.ok(questions.length >= 1 && questions.length <= most, `${questions.length} questions, at most ${most}`);
});

t.test('a page reads as many records as it shows and one more, however many there are', async (t) => {
  const queue = await bullmqQueue({
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
  t.match(await queue.list('maps', { limit: 1 }), { runs: [{ run_id: 'maps.60' }], more: true });
  const [, calls = 'none'] = /cmdstat_hmget:calls=(\d+)/.exec(await other.info('commandstats')) ?? [];
  t.equal(Number(calls), 2);
});
