import type { Clock } from '../../../core/lib/clock.ts';
import { hasCode } from '../../../core/lib/errors.ts';
import type { JobProcessor } from '../../queue/job-queue.ts';
import { bundleGone, runUnknown } from '../../queue/refusals.ts';
import type { RunObserver } from '../../queue/run-observer.ts';
import { bullmqQueue, type BullmqQueue, type BullmqQueueOptions } from '../bullmq-queue.ts';
import { runSlots } from '../run-slots.ts';
import { clearance } from './clearance.ts';
import { mergedWatch } from './merged-watch.ts';
import { pipelineOfRun } from './shard-map.ts';
import { shardedReads, type Located } from './sharded-reads.ts';
import { shardedTriggers } from './sharded-triggers.ts';
import { away, openShards, type Shards } from './shards.ts';

export interface ShardedQueueOptions extends Omit<
  BullmqQueueOptions,
  'redis' | 'slots' | 'mayBegin' | 'told'
> {
  /** At least two, by their names. */
  redis: { urls: ReadonlyMap<string, string>; prefix: string };
  /** As that of one Redis, by its name. */
  told?: (redis: string) => Promise<void>;
}

export interface ShardedQueue extends Omit<BullmqQueue, 'isUsed' | 'marks' | 'isUp' | 'prove' | 'queues'> {
  /** The name of the Redis that has the run, as far as this process knows. */
  redisOf(runId: string | null, pipelineId: string | null): string;
  /** The names of those that do not answer. Throws `queue_unavailable` if none does. */
  away(): Promise<string[]>;
}

/**
 * One queue over several Redis. Each is a whole queue of its own (`bullmqQueue`), and has the pipelines that
 * `shardMap` gives to it, with their limits, runs, keys and events; here is decided which one is asked. So
 * one that is away stops its own pipelines, and nothing else.
 *
 * When a name is added, some pipelines live on its Redis from then on. Their records are found where they
 * are, runs that wait are finished there, and what is accepted on the new one begins after them
 * (`clearance`). All processes must have the same names, which each Redis sees to (`joinProcesses`).
 */
export async function shardedQueue(options: ShardedQueueOptions): Promise<ShardedQueue> {
  const { clock, log, redis, told } = options;
  const names = [...redis.urls.keys()];
  const slots = runSlots(options.maxConcurrency);
  /** Empty until all are open. */
  const late: { shards?: Shards } = {};
  const shards = (): Shards => {
    if (late.shards === undefined) throw away(names);
    return late.shards;
  };
  const mayBegin = clearance(shards);
  const opened = await openShards({
    clock,
    log,
    names,
    pipelineIds: options.pipelineIds,
    open: (shard, pipelineIds) => {
      const name = names[shard] ?? '';
      const one = { url: redis.urls.get(name) ?? '', urlEnv: name, prefix: redis.prefix, among: names };
      return bullmqQueue({
        ...options,
        redis: one,
        pipelineIds,
        slots,
        mayBegin: (pipelineId) => mayBegin(shard, pipelineId),
        told: async () => told?.(name),
      });
    },
  });
  late.shards = opened;
  await movePauses(opened);
  // One that answers later may know of others.
  opened.onOpen(
    () =>
      void movePauses(opened).catch((error: unknown) => log.error({ err: error }, 'a pause was not moved')),
  );
  return queueOver(opened, clock);
}

function queueOver(shards: Shards, clock: Clock): ShardedQueue {
  const { map, at, owner, up, former } = shards;
  const reads = shardedReads(shards, clock);
  const known = async (runId: string): Promise<Located> => {
    const found = await reads.locate(runId);
    if (found === undefined) throw runUnknown();
    return found;
  };
  /** Runs that are finished where their pipelines do not live any more. */
  const elsewhere = new Map<string, number>();
  const noting =
    (shard: number, process: JobProcessor): JobProcessor =>
    (job, context) => {
      if (map.ownerOf(job.pipelineId) !== shard) elsewhere.set(job.runId, shard);
      return process(job, context);
    };
  let isDraining = false;
  let closing: Promise<{ unfinished: string[] }> | undefined;
  const shutDown = async (timeoutMs: number): Promise<{ unfinished: string[] }> => {
    isDraining = true;
    const answers = await Promise.all((await shards.stop()).map((queue) => queue.close(timeoutMs)));
    return { unfinished: answers.flatMap(({ unfinished }) => unfinished) };
  };

  return {
    ...reads,
    triggers: shardedTriggers(shards),
    watch: (onChange) => mergedWatch(shards, onChange),
    reserve: async (request) => {
      const { pipelineId, idempotency } = request;
      if (idempotency !== undefined)
        for (const shard of former(pipelineId))
          if (await at(shard).isUsed(request))
            return at(shard).reserve({ ...request, idempotency: { ...idempotency, rerunFailed: false } });
      return owner(pipelineId).reserve(request);
    },
    pause: async (pipelineId, reason) => {
      const pause = await owner(pipelineId).pause(pipelineId, reason);
      for (const shard of former(pipelineId)) await at(shard).pause(pipelineId, reason);
      return pause;
    },
    resume: async (pipelineId) => {
      const wasPaused = await owner(pipelineId).resume(pipelineId);
      for (const shard of former(pipelineId)) await at(shard).resume(pipelineId);
      return wasPaused;
    },
    cancel: async (runId) => (await known(runId)).queue.cancel(runId),
    retryNow: async (runId) => (await known(runId)).queue.retryNow(runId),
    rerun: async (runId, newRunId, trace) => {
      const { queue, record } = await known(runId);
      // Two Redis cannot agree on whose turn it is.
      if (queue !== owner(record.pipeline_id)) throw bundleGone();
      return queue.rerun(runId, newRunId, trace);
    },
    noteDelivery: async (runId, note) => (await reads.locate(runId))?.queue.noteDelivery(runId, note),
    start: async (process: JobProcessor, observer?: RunObserver) => {
      const starting: Promise<void>[] = [];
      shards.onOpen((queue, shard) => {
        if (isDraining) queue.drain();
        starting.push(queue.start(noting(shard, process), observer));
      });
      await Promise.all(starting);
    },
    drain: () => {
      isDraining = true;
      for (const shard of map.names.keys()) ifOpen(() => at(shard).drain());
    },
    close: (timeoutMs) => (closing ??= shutDown(timeoutMs)),
    isInterrupted: (runId) => up().some((shard) => at(shard).isInterrupted(runId)),
    addPipelines: (pipelineIds) => shards.add(pipelineIds),
    redisOf: (runId, pipelineId) => {
      const pipeline = pipelineId ?? (runId === null ? '' : pipelineOfRun(runId));
      return map.names[elsewhere.get(runId ?? '') ?? map.ownerOf(pipeline)] ?? '';
    },
    away: async () => {
      const answers = await Promise.allSettled(map.names.map(async (_, shard) => at(shard).depth()));
      const lacking = map.names.filter((_, shard) => answers[shard]?.status === 'rejected');
      if (lacking.length === map.names.length) throw away(map.names);
      return lacking;
    },
  };
}

function ifOpen(work: () => void): void {
  try {
    work();
  } catch (error) {
    if (!hasCode(error, 'queue_unavailable')) throw error;
  }
}

/** A pipeline that was paused where it lived before is paused where it lives now, as far as both answer. */
async function movePauses({ map, at, up, former }: Shards): Promise<void> {
  try {
    for (const shard of up())
      for (const [pipelineId, { reason }] of await at(shard).pauses()) {
        const home = map.ownerOf(pipelineId);
        if (home === shard || !up().includes(home)) continue;
        await at(home).pause(pipelineId, reason);
        if (!former(pipelineId).includes(shard)) await at(shard).resume(pipelineId);
      }
  } catch (error) {
    if (!hasCode(error, 'queue_unavailable')) throw error;
  }
}
