import { createHash } from 'node:crypto';
import type { Clock } from '../../../core/lib/clock.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import type { Log } from '../../../core/lib/log.ts';
import type { BullmqQueue } from '../bullmq-queue.ts';
import { type Late, openLate } from './open-late.ts';

/** Assigns pipelines to Redis servers. All functions are pure; a shard is its index. */
interface ShardMap {
  readonly names: readonly string[];
  /** The shard that accepts the runs of the pipeline. */
  readonly ownerOf: (pipelineId: string) => number;
}

/**
 * Assigns pipelines by rendezvous hashing. A pipeline lives on the shard whose name, hashed with the
 * pipeline's id, gives the largest value. All hosts therefore agree without communication, in any order of
 * the names. An added name takes over only the pipelines for which it has the largest value.
 *
 * @param names Configured names of the variables that hold the URLs. The URLs may change.
 */
export function shardMap(names: readonly string[]): ShardMap {
  const known = new Map<string, number>();
  const find = (pipelineId: string): number => {
    const weights = names.map((name) => weightOf(name, pipelineId));
    return weights.reduce((best, weight, index) => (weight > (weights[best] ?? '') ? index : best), 0);
  };
  return {
    names,
    ownerOf: (pipelineId) => {
      let owner = known.get(pipelineId);
      if (owner === undefined) known.set(pipelineId, (owner = find(pipelineId)));
      return owner;
    },
  };
}

/** Hexadecimal digits, which sort like the number. */
function weightOf(name: string, pipelineId: string): string {
  return createHash('sha256')
    .update(JSON.stringify([name, pipelineId]))
    .digest('hex');
}

/** The pipeline id in a run id: the part before the time and suffix. Pure. */
export function pipelineOfRun(runId: string): string {
  const [, pipelineId] = /^(.+)\.\d{8}T\d{6}Z\.[0-9a-z]+$/.exec(runId) ?? [];
  return pipelineId ?? runId.slice(0, Math.max(0, runId.lastIndexOf('.')));
}

/**
 * The queues of several Redis servers, each open as soon as its Redis answers. Also knows which shards have
 * runs of pipelines that lived there before the names changed.
 */
export interface Shards {
  readonly map: ShardMap;
  /** The queue of a shard. Throws `queue_unavailable` with the shard's name until it is open. */
  readonly at: (shard: number) => BullmqQueue;
  /** The queue that accepts runs of the pipeline. Throws as `at`. */
  readonly owner: (pipelineId: string) => BullmqQueue;
  /** The shards whose Redis answers, as far as known. */
  readonly up: () => number[];
  /** The shards, other than its owner, that answer and have runs of the pipeline, ended or not. */
  readonly former: (pipelineId: string) => number[];
  /** Calls `use` with each queue once it is open. */
  readonly onOpen: (use: (queue: BullmqQueue, shard: number) => void) => void;
  /** Adds newly configured pipelines. Throws `queue_unavailable`. */
  readonly add: (pipelineIds: readonly string[]) => Promise<void>;
  /** Stops opening queues. Resolves with the open ones. */
  readonly stop: () => Promise<BullmqQueue[]>;
}

interface ShardsOptions {
  clock: Clock;
  log: Log;
  names: readonly string[];
  pipelineIds: readonly string[];
  /** Opens the queue of a shard for these pipelines. */
  open: (shard: number, pipelineIds: readonly string[]) => Promise<BullmqQueue>;
}

/** Throws the error of opening if no Redis answers, or if one that answers cannot be used. */
export async function openShards(options: ShardsOptions): Promise<Shards> {
  const { clock, log, names } = options;
  const map = shardMap(names);
  const known = new Set(options.pipelineIds);
  const formerOf = new Map<string, Set<number>>();

  const ownedBy = (shard: number): string[] => [...known].filter((id) => map.ownerOf(id) === shard);

  /**
   * Finds runs of pipelines that have moved to another shard. Their waiting runs are finished here, before
   * any later run.
   */
  const findFormer = async (queue: BullmqQueue, shard: number, ids: readonly string[]): Promise<void> => {
    const foreign = ids.filter((id) => map.ownerOf(id) !== shard);
    if (foreign.length === 0) return;
    const overviews = await queue.overview(foreign);
    const left = overviews.flatMap((one, index) =>
      one.waiting + one.retrying > 0 || one.running !== null ? [foreign[index] as string] : [],
    );
    if (left.length > 0) {
      await queue.addPipelines(left);
      log.info(
        { redis: names[shard], pipelines: left },
        'runs of pipelines that have moved are finished here',
      );
    }
    for (const [index, { waiting, lastRun }] of overviews.entries())
      if (waiting > 0 || lastRun !== null) {
        const id = foreign[index] as string;
        formerOf.set(id, (formerOf.get(id) ?? new Set()).add(shard));
      }
  };

  const lates: Late<BullmqQueue>[] = names.map((name, shard) =>
    openLate(
      async () => {
        const queue = await options.open(shard, ownedBy(shard));
        try {
          await findFormer(queue, shard, [...known]);
          return queue;
        } catch (error) {
          await queue.close(0);
          throw error;
        }
      },
      { clock, log, what: name },
    ),
  );
  const opened = (): BullmqQueue[] => lates.flatMap((late) => late.get() ?? []);
  const stop = async (): Promise<BullmqQueue[]> => {
    await Promise.all(lates.map((late) => late.stop()));
    return opened();
  };
  const tried = await Promise.allSettled(lates.map(({ tried }) => tried));
  const failed = tried.find((one) => one.status === 'rejected');
  if (failed !== undefined || opened().length === 0) {
    for (const queue of await stop()) await queue.close(0);
    throw failed === undefined ? away(names) : failed.reason;
  }

  const at = (shard: number): BullmqQueue => {
    const queue = lates[shard]?.get();
    if (queue === null || queue === undefined) throw away([names[shard] ?? '']);
    return queue;
  };
  const isUp = (shard: number): boolean => lates[shard]?.get()?.isUp() === true;
  return {
    map,
    at,
    owner: (pipelineId) => at(map.ownerOf(pipelineId)),
    up: () => [...names.keys()].filter(isUp),
    former: (pipelineId) => [...(formerOf.get(pipelineId) ?? [])].filter(isUp),
    onOpen: (use) => {
      for (const [shard, late] of lates.entries()) late.onOpen((queue) => use(queue, shard));
    },
    add: async (pipelineIds) => {
      const fresh = pipelineIds.filter((id) => !known.has(id));
      for (const [shard, late] of lates.entries()) {
        const queue = late.get();
        // A shard that opens later takes these pipelines with all others.
        if (queue === null) continue;
        const owned = fresh.filter((id) => map.ownerOf(id) === shard);
        if (owned.length > 0) await queue.addPipelines(owned);
        if (isUp(shard)) await findFormer(queue, shard, fresh);
      }
      for (const id of fresh) known.add(id);
    },
    stop,
  };
}

/** @param names Names of the unreachable Redis servers. */
export function away(names: readonly string[]): WaybillError {
  const those = names.length === 1 ? 'the Redis' : 'none of the Redis';
  return new WaybillError(
    'queue_unavailable',
    `${those} of ${names.join(', ')} ${names.length === 1 ? 'does not answer' : 'answers'}`,
    { hint: 'try again shortly' },
  );
}
