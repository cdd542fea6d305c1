import type { Clock } from '../../../core/lib/clock.ts';
import { hasCode } from '../../../core/lib/errors.ts';
import type { JobQueue, PipelineOverview, RunQuery } from '../../queue/job-queue.ts';
import { pageGone } from '../../queue/refusals.ts';
import type { RunPage } from '../../queue/run-filter.ts';
import type { RunRecord } from '../../queue/run-record.ts';
import type { BullmqQueue } from '../bullmq-queue.ts';
import { away, pipelineOfRun, type Shards } from './shards.ts';

/** Where a run is, and its record. */
export interface Located {
  queue: BullmqQueue;
  record: RunRecord;
}

interface ShardedReads extends Pick<
  JobQueue,
  'find' | 'untilFinished' | 'list' | 'overview' | 'waitingSince' | 'depth' | 'kept' | 'pauses'
> {
  /** Undefined if no Redis knows the run. Throws `queue_unavailable` if one that may know it is away. */
  locate(runId: string): Promise<Located | undefined>;
}

const askEveryMs = 500;

/** What is read over all shards. What counts or lists over all pipelines leaves out what is away. */
export function shardedReads(shards: Shards, clock: Clock): ShardedReads {
  const { map, at, up, former } = shards;

  const locate = async (runId: string): Promise<Located | undefined> => {
    const home = map.ownerOf(pipelineOfRun(runId));
    const record = await at(home).find(runId);
    if (record !== undefined) return { queue: at(home), record };
    const answering = up();
    for (const shard of answering) {
      if (shard === home) continue;
      const found = await at(shard).find(runId);
      if (found !== undefined) return { queue: at(shard), record: found };
    }
    const silent = map.names.filter((_, shard) => !answering.includes(shard));
    if (silent.length > 0) throw away(silent.slice(0, 1));
    return undefined;
  };

  /** Of each shard that answers. Throws `queue_unavailable` if none does. */
  const ofAll = async <T>(ask: (queue: BullmqQueue) => Promise<T>): Promise<T[]> => {
    const answers = await Promise.allSettled(map.names.map(async (_, shard) => ask(at(shard))));
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    const defect = answers.find(
      (answer) => answer.status === 'rejected' && !hasCode(answer.reason, 'queue_unavailable'),
    );
    if (defect?.status === 'rejected') throw defect.reason;
    if (found.length === 0) throw away(map.names);
    return found;
  };

  /** By the shards that have, or had, any of the pipelines: which. */
  const byShard = (pipelineIds: readonly string[]): Map<number, string[]> => {
    const asked = new Map<number, string[]>();
    for (const id of pipelineIds)
      for (const shard of [map.ownerOf(id), ...former(id)])
        asked.set(shard, [...(asked.get(shard) ?? []), id]);
    return asked;
  };

  return {
    locate,
    find: async (runId) => (await locate(runId))?.record,
    untilFinished: async (runId, signal) => {
      while (!signal.aborted)
        try {
          const found = await locate(runId);
          return await found?.queue.untilFinished(runId, signal);
        } catch (error) {
          if (!hasCode(error, 'queue_unavailable')) throw error;
          await clock.sleep(askEveryMs, signal).catch(() => undefined);
        }
    },
    list: (pipelineIds, query) => listOver(map.names.length, byShard(pipelineIds), query, { at, locate }),
    overview: async (pipelineIds) => {
      const found = new Map<string, PipelineOverview>();
      for (const [shard, ids] of byShard(pipelineIds)) {
        const answer = await unlessAway(async () => at(shard).overview(ids));
        for (const [index, id] of ids.entries()) {
          const isHome = map.ownerOf(id) === shard;
          const one = answer?.[index] ?? { ...nothing, ...(isHome ? { isAway: true as const } : {}) };
          const before = found.get(id);
          found.set(id, before === undefined ? one : together(before, one));
        }
      }
      return pipelineIds.map((id) => found.get(id) ?? nothing);
    },
    waitingSince: async (pipelineIds) => {
      const found = new Map<string, string | null | undefined>();
      for (const [shard, ids] of byShard(pipelineIds)) {
        const answer = await unlessAway(async () => at(shard).waitingSince(ids));
        for (const [index, id] of ids.entries()) {
          const [since, before] = [answer?.[index], found.get(id)];
          if (map.ownerOf(id) === shard || typeof since === 'string')
            found.set(id, typeof before === 'string' && (since ?? before) >= before ? before : since);
        }
      }
      return pipelineIds.map((id) => found.get(id));
    },
    depth: async () => sums(await ofAll((queue) => queue.depth())),
    kept: async () => sums(await ofAll((queue) => queue.kept())),
    pauses: async () => new Map((await ofAll((queue) => queue.pauses())).flatMap((one) => [...one])),
  };

  async function unlessAway<T>(ask: () => Promise<T>): Promise<T | undefined> {
    try {
      return await ask();
    } catch (error) {
      if (hasCode(error, 'queue_unavailable')) return undefined;
      throw error;
    }
  }
}

const nothing: PipelineOverview = {
  ...{ waiting: 0, retrying: 0 },
  ...{ running: null, lastRun: null, lastSuccess: null },
};

/** How a pipeline stands that has runs on two Redis. */
function together(one: PipelineOverview, other: PipelineOverview): PipelineOverview {
  const isLater = (a: string | undefined, b: string | undefined): boolean => (a ?? '') > (b ?? '');
  return {
    waiting: one.waiting + other.waiting,
    retrying: one.retrying + other.retrying,
    running: one.running ?? other.running,
    lastRun: isLater(other.lastRun?.accepted_at, one.lastRun?.accepted_at) ? other.lastRun : one.lastRun,
    lastSuccess: isLater(other.lastSuccess?.finished_at, one.lastSuccess?.finished_at)
      ? other.lastSuccess
      : one.lastSuccess,
    ...(one.isAway === true || other.isAway === true ? { isAway: true } : {}),
  };
}

function sums<T extends object>(all: readonly T[]): T {
  const total: Record<string, number> = {};
  for (const one of all)
    for (const [key, value] of Object.entries(one) as [string, number][])
      total[key] = (total[key] ?? 0) + value;
  return total as T;
}

/**
 * A page of runs of all shards that have any of the pipelines. `before` is a place in all of their lists, or
 * the id of a run, from which on each list is read by time.
 */
async function listOver(
  shards: number,
  asked: ReadonlyMap<number, readonly string[]>,
  { before = null, ...query }: RunQuery,
  { at, locate }: Pick<Shards, 'at'> & Pick<ShardedReads, 'locate'>,
): Promise<RunPage> {
  const [only] = asked.size === 1 ? [...asked] : [];
  const known = before === null ? null : placeOf(before, shards);
  if (only !== undefined && known === null)
    return at(only[0]).list(only[1], { ...query, ...(before === null ? {} : { before }) });
  const first = before === null || known !== null ? undefined : await locate(before);
  if (before !== null && known === null && first === undefined) throw pageGone();
  const notAfter = first === undefined ? null : new Date(first.record.accepted_at);
  const place: Place =
    known ?? Array.from({ length: shards }, (_, shard) => (asked.has(shard) ? null : 'end'));
  const pages = await Promise.all(
    place.map(async (one, shard): Promise<RunPage> => {
      const ids = asked.get(shard);
      if (one === 'end' || ids === undefined) return { runs: [], next: null };
      if (one !== null) return at(shard).list(ids, { ...query, before: one.before });
      if (first === undefined || before === null) return at(shard).list(ids, query);
      return first.queue === at(shard)
        ? at(shard).list(ids, { ...query, before })
        : at(shard).list(ids, { ...query, notAfter });
    }),
  );
  const merged = mergedPage(pages, place, query.limit);
  return { runs: merged.runs, next: placeText(merged.place) };
}

/*
 * One list of runs out of several, each with its own order of acceptance, which stays. Between them the times
 * of acceptance decide. All pure.
 */

/** How far a reader is in each of the lists; in their order. */
export type Place = readonly ListPlace[];

/** `null`: nothing was read yet; `end`: everything was. */
type ListPlace = { before: string } | 'end' | null;

/** No run id has such a character. */
const separator = ',';
const endMark = '!';

/** As the text that a reader sends back; null if it has read everything. */
export function placeText(place: Place): string | null {
  if (place.every((one) => one === 'end')) return null;
  return place.map((one) => (one === null ? '' : one === 'end' ? endMark : one.before)).join(separator);
}

/** Null for a text that is none of so many lists: the id of a run, for instance. */
export function placeOf(text: string, lists: number): Place | null {
  const parts = text.split(separator);
  if (lists === 1 || parts.length !== lists) return null;
  return parts.map((part) => (part === '' ? null : part === endMark ? 'end' : { before: part }));
}

/**
 * The newest runs of all lists, at most `limit`, and the place after them. A list that tells less than it has
 * (`next`) ends the page: what follows in it may be newer than what the others have.
 *
 * @param pages Of each list what follows its place, at least `limit` runs if there are as many.
 */
export function mergedPage(
  pages: readonly RunPage[],
  place: Place,
  limit: number,
): { runs: RunRecord[]; place: Place } {
  const runs: RunRecord[] = [];
  const taken = pages.map(() => 0);
  const headOf = (list: number): RunRecord | undefined => pages[list]?.runs[taken[list] ?? 0];
  const isCut = (list: number): boolean => headOf(list) === undefined && pages[list]?.next !== null;
  while (runs.length < limit && !pages.some((_, list) => isCut(list))) {
    let newest: number | null = null;
    for (const list of pages.keys()) {
      const [head, best] = [headOf(list), newest === null ? undefined : headOf(newest)];
      if (head !== undefined && (best === undefined || head.accepted_at > best.accepted_at)) newest = list;
    }
    if (newest === null) break;
    runs.push(headOf(newest) as RunRecord);
    taken[newest] = (taken[newest] ?? 0) + 1;
  }
  return {
    runs,
    place: pages.map(({ runs: found, next }, list) => {
      const count = taken[list] ?? 0;
      if (count === found.length) return next === null ? 'end' : { before: next };
      return count === 0 ? (place[list] ?? null) : { before: (found[count - 1] as RunRecord).run_id };
    }),
  };
}
