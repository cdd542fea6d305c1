import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { digestOf } from '../../src/core/lib/digest.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import { BullmqQueue } from '../../src/workers/bullmq/bullmq-queue.ts';
import { runResult } from '../contract/queue.ts';
import type { RedisService } from '../services/redis.ts';
import { startWatchedRedis } from '../services/redis-groups.ts';

// A Sentinel that was delayed for two seconds does nothing for thirty (TILT mode).
t.setTimeout(0);

const watched = await startWatchedRedis();
t.teardown(() => watched.close());

/** Resolves once both replicas have all writes of the primary. */
async function untilReplicated(primary: RedisService): Promise<void> {
  for (;;) {
    const facts = await primary.cli('info', 'replication');
    const written = /master_repl_offset:(\d+)/.exec(facts)?.[1] ?? '';
    const replicated = [...facts.matchAll(/slave\d:.*offset=(\d+)/g)].map((match) => match[1]);
    if (replicated.length === 2 && replicated.every((offset) => offset === written)) return;
    await sleep(20);
  }
}

/** Repeats a call while Redis is unreachable. */
async function insist<T>(call: () => Promise<T>): Promise<T> {
  for (;;)
    try {
      return await call();
    } catch (error) {
      if ((error as { code?: string }).code !== 'queue_unavailable') throw error;
      await sleep(50);
    }
}

t.test('every accepted run ends in order when the primary is killed', async (t) => {
  const queue = await BullmqQueue.open({
    clock: systemClock,
    log: silentLog,
    redis: {
      // Only the Sentinels know the address.
      url: 'redis://nowhere.invalid:1',
      urlEnv: 'REDIS_URL',
      sentinels: watched.settings,
      prefix: 'waybill',
    },
    pipelineIds: ['maps'],
    workerTimeoutMs: 5_000,
    queueSize: 100,
    maxConcurrency: 2,
    retentionMs: 60_000,
    onExpire: async () => undefined,
    shared: { share: async (job) => job, remove: async () => undefined },
  });
  t.teardown(() => queue.close(0));
  const runIds = Array.from({ length: 20 }, (_, index) => `maps.${index}`);
  const accept = async (runId: string): Promise<void> => {
    const job = { runId, pipelineId: 'maps', staged: null };
    // A client repeats a 503 with its key.
    const idempotency = { caller: 'ci', key: runId, rerunFailed: false };
    await insist(async () => {
      const admission = await queue.reserve({ pipelineId: 'maps', idempotency });
      await admission.accept(job, digestOf('{}'));
    });
  };
  const begun: string[] = [];
  let open: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (open = resolve));
  await queue.start(async (job) => {
    begun.push(job.runId);
    await gate;
    return runResult('ok');
  });
  for (const runId of runIds.slice(0, 10)) await accept(runId);
  await untilReplicated(watched.primary);
  await watched.primary.stop('SIGKILL');
  open();
  for (const runId of runIds.slice(10)) await accept(runId);
  const never = new AbortController().signal;
  for (const runId of runIds) {
    await insist(() => queue.untilFinished(runId, never));
    t.match(await insist(() => queue.find(runId)), { status: 'succeeded' }, runId);
  }
  // A run whose end was not written before the failover begins again.
  t.same([...new Set(begun)], runIds);
});
