import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import type { BullmqQueueOptions } from '../../../src/workers/bullmq/bullmq-options.ts';
import { BullmqQueue } from '../../../src/workers/bullmq/bullmq-queue.ts';
import type { RedisServer } from '../../../src/workers/bullmq/redis-client.ts';
import type { PublishJob } from '../../../src/workers/queue/job.ts';
import { runResult } from '../../contract/queue.ts';

export interface FailoverOptions {
  redis: RedisServer;
  uploads: number;
  pipelines: number;
  /**
   * Steps that disturb Redis. They are called one after another, each after a further equal share of the
   * uploads. Uploads continue during each step. The last one kills a primary.
   */
  steps: readonly (() => Promise<void>)[];
}

const passing = ['queue_unavailable', 'idempotency_in_progress'];

/** Repeats a call while it gets a 503, as a client does. */
export async function insist<T>(call: () => Promise<T>): Promise<T> {
  for (;;)
    try {
      return await call();
    } catch (error) {
      if (!passing.includes((error as { code?: string }).code ?? '')) throw error;
      await sleep(50);
    }
}

/** Opens a queue, which the end of the test closes. */
export async function openHost(
  t: Test,
  settings: Pick<BullmqQueueOptions, 'redis' | 'pipelineIds'> & Partial<BullmqQueueOptions>,
): Promise<BullmqQueue> {
  const defaults = {
    clock: systemClock,
    log: silentLog,
    workerTimeoutMs: 5_000,
    queueSize: 1_000,
    maxConcurrency: 10,
    retentionMs: 3_600_000,
    onExpire: async () => undefined,
    shared: { share: async (job: PublishJob) => job, remove: async () => undefined },
  };
  const queue = await insist(() => BullmqQueue.open({ ...defaults, ...settings }));
  t.teardown(() => queue.close(0));
  return queue;
}

/** Uploads a bundle with an Idempotency-Key, which is the id of the run by default. */
export async function submit(queue: BullmqQueue, job: PublishJob, key = job.runId): Promise<void> {
  const idempotency = { caller: 'ci', key, rerunFailed: false };
  const admission = await queue.reserve({ pipelineId: job.pipelineId, idempotency });
  await admission.accept(job, digestOf('{}'));
}

/**
 * Uploads to all pipelines at once, in order within each, while one API and two workers run and Redis is
 * disturbed. Every accepted run must succeed, in order, and no pipeline may have two runs at a time.
 */
export async function surviveFailover(t: Test, options: FailoverOptions): Promise<void> {
  const { redis, uploads } = options;
  const pipelineIds = Array.from({ length: options.pipelines }, (_, index) => `p${index}`);
  const host = (): Promise<BullmqQueue> => openHost(t, { redis, pipelineIds });
  const [api, ...workers] = [await host(), await host(), await host()];
  const busy = new Map<string, string>();
  const begun: string[] = [];
  const overlaps: string[] = [];
  for (const worker of workers)
    await worker.start(async ({ runId, pipelineId }) => {
      const other = busy.get(pipelineId);
      if (other !== undefined) overlaps.push(`${runId} began during ${other}`);
      busy.set(pipelineId, runId);
      begun.push(runId);
      await sleep(20);
      busy.delete(pipelineId);
      return runResult('ok');
    });
  const perPipeline = uploads / pipelineIds.length;
  const runIds = pipelineIds.map((id) => Array.from({ length: perPipeline }, (_, index) => `${id}.${index}`));
  const steps = [...options.steps];
  const share = Math.ceil(uploads / (steps.length + 1));
  let [accepted, killedAt, slowestMs] = [0, NaN, 0];
  let [earlierStep, step]: [Promise<void>, Promise<void>] = [Promise.resolve(), Promise.resolve()];
  const accept = async (runId: string, pipelineId: string): Promise<void> => {
    await earlierStep;
    const since = performance.now();
    await insist(() => submit(api, { runId, pipelineId, staged: null }));
    slowestMs = Math.max(slowestMs, performance.now() - since);
    accepted += 1;
    const next = accepted % share === 0 ? steps.shift() : undefined;
    if (next === undefined) return;
    earlierStep = step;
    step = earlierStep.then(() => {
      killedAt = performance.now();
      return next();
    });
  };
  await Promise.all(
    pipelineIds.map(async (pipelineId, index) => {
      for (const runId of runIds[index] ?? []) await accept(runId, pipelineId);
    }),
  );
  const acceptedAt = performance.now();
  const never = new AbortController().signal;
  const lost: string[] = [];
  await Promise.all(
    runIds.flat().map(async (runId) => {
      if ((await insist(() => api.find(runId))) === undefined) return void lost.push(runId);
      await insist(() => api.untilFinished(runId, never));
      const status = (await insist(() => api.find(runId)))?.status;
      if (status !== 'succeeded') lost.push(`${runId}: ${status}`);
    }),
  );
  const publishedAt = performance.now();
  await step;
  const seconds = (from: number, to: number): string => ((to - from) / 1000).toFixed(1);
  t.comment(
    `${uploads} uploads: the slowest answer took ${seconds(0, slowestMs)} s; all were accepted ` +
      `${seconds(killedAt, acceptedAt)} s after the kill and published ${seconds(killedAt, publishedAt)} s ` +
      `after it; ${begun.length - new Set(begun).size} began again`,
  );
  t.same(lost, [], 'every accepted run succeeded');
  t.same(overlaps, [], 'no pipeline had two runs at a time');
  // A run whose end was lost begins again.
  const order = pipelineIds.map((id) => [...new Set(begun)].filter((runId) => runId.startsWith(`${id}.`)));
  t.same(order, runIds, 'runs began in the order of acceptance');
}
