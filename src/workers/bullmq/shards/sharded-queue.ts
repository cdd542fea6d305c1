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

/**
 * Triggers are decided where their pipelines live. One that lived elsewhere before has its last ticks there,
 * until one was decided where it lives now.
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
 * Whether runs of a pipeline may begin where it lives now: not before the last one has ended wherever it
 * lived before, so that the order of acceptance holds, and one at a time. Nothing of it is accepted there any
 * more, so that what was seen once holds for good, and is noted for all hosts and starts: a Redis that is
 * away later stops no other.
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
