import type { Clock } from '../../../core/lib/clock.ts';
import { hasCode } from '../../../core/lib/errors.ts';
import type { Trigger } from '../../queue/job.ts';
import type { JobProcessor } from '../../queue/job-queue.ts';
import { bundleGone, runUnknown } from '../../queue/refusals.ts';
import type { RunObserver } from '../../queue/run-observer.ts';
import { isKnown, type TriggerKind, type TriggerOf, type Triggers } from '../../queue/trigger.ts';
import type { BullmqQueueOptions } from '../bullmq-options.ts';
import { type BullmqQueue, bullmqQueue } from '../bullmq-queue.ts';
import { runSlots } from '../membership.ts';
import { mergedWatch } from './merged-watch.ts';
import { type Located, shardedReads } from './sharded-reads.ts';
import { away, openShards, pipelineOfRun, type Shards } from './shards.ts';

export interface ShardedQueueOptions extends Omit<
  BullmqQueueOptions,
  'redis' | 'slots' | 'mayBegin' | 'told'
> {
  /** The URLs of at least two Redis servers, by name. */
  redis: { urls: ReadonlyMap<string, string>; prefix: string };
  /** As `BullmqQueueOptions.told`, for the Redis with this name. */
  told?: (redis: string) => Promise<void>;
}

export interface ShardedQueue extends Omit<BullmqQueue, 'isUsed' | 'marks' | 'isUp' | 'prove' | 'queues'> {
  /** The name of the Redis that has the run, as far as this process knows. */
  redisOf(runId: string | null, pipelineId: string | null): string;
  /** The names of unreachable Redis servers. Throws `queue_unavailable` if none answers. */
  away(): Promise<string[]>;
}

/**
 * One queue over several Redis servers. Each server has a complete queue (`bullmqQueue`) with the pipelines
 * that `shardMap` assigns to it, including their limits, runs, keys and events. This module selects the
 * server for each call. An unreachable server therefore stops only its own pipelines.
 *
 * When a name is added, some pipelines move to its Redis. Their old records stay where they are, and their
 * waiting runs finish there. Runs accepted on the new server begin after them (`clearance`). All processes
 * must have the same names, which each Redis enforces (`joinProcesses`).
 */
export async function shardedQueue(options: ShardedQueueOptions): Promise<ShardedQueue> {
  const { clock, log, redis, told } = options;
  const names = [...redis.urls.keys()];
  const slots = runSlots(options.maxConcurrency);
  /** Empty until the shards are open. */
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
  // A Redis that answers later may have paused other pipelines.
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
  /** Runs that finish on a former Redis of their pipeline. */
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
      // Two Redis servers cannot agree on the order of runs.
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

/** Copies the pauses of moved pipelines to their current Redis, as far as both servers answer. */
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

/**
 * Decides triggers on the current Redis of each pipeline. The last ticks of a moved pipeline are on its
 * former Redis until the first one is decided on the current Redis.
 */
function shardedTriggers({ at, owner, up, map }: Shards): Triggers {
  const elsewhere = async <K extends TriggerKind>(pipelineId: string, kind: K): Promise<TriggerOf<K>[]> => {
    const home = map.ownerOf(pipelineId);
    const others = up().filter((shard) => shard !== home);
    const found = await Promise.all(others.map((shard) => at(shard).triggers.last(pipelineId, kind)));
    return found.flatMap((one) => one ?? []);
  };
  return {
    last: async (pipelineId, kind) =>
      (await owner(pipelineId).triggers.last(pipelineId, kind)) ??
      (await elsewhere(pipelineId, kind)).toSorted(byTick).at(-1) ??
      null,
    decide: async (job, options) => {
      const { pipelineId, trigger } = job;
      const { triggers } = owner(pipelineId);
      if ((await triggers.last(pipelineId, trigger.kind)) === null) {
        const before = await elsewhere(pipelineId, trigger.kind);
        if (before.some((last) => isKnown(last, trigger, options?.latest))) return { outcome: 'known' };
      }
      return triggers.decide(job, options);
    },
  };
}

function byTick(a: Trigger, b: Trigger): number {
  return a.kind === 'schedule' && b.kind === 'schedule' ? Date.parse(a.tick) - Date.parse(b.tick) : 0;
}

/**
 * Whether runs of a pipeline may begin on its current Redis. They begin only after the last run on every
 * former Redis has ended. This keeps the order of acceptance and one run at a time. A former Redis accepts no
 * further runs of the pipeline, so the result is final. It is stored for all hosts and restarts, so that a
 * later outage of the former Redis does not block the pipeline.
 */
function clearance(shards: () => Shards): (shard: number, pipelineId: string) => Promise<boolean> {
  const cleared = new Set<string>();
  return async (shard, pipelineId) => {
    const { map, at, up } = shards();
    if (cleared.has(pipelineId) || map.ownerOf(pipelineId) !== shard) return true;
    const others = [...map.names.keys()].filter((other) => other !== shard);
    const noted = new Set(await at(shard).marks.of(pipelineId));
    const left = others.filter((other) => !noted.has(map.names[other] ?? ''));
    const answering = new Set(up());
    for (const other of left) {
      if (!answering.has(other)) return false;
      const [found] = await at(other).overview([pipelineId]);
      if (found === undefined || found.waiting + found.retrying > 0 || found.running !== null) return false;
    }
    if (left.length > 0)
      await at(shard).marks.set(
        pipelineId,
        others.map((other) => map.names[other] ?? ''),
      );
    cleared.add(pipelineId);
    return true;
  };
}
