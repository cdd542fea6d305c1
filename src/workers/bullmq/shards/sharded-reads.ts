import type { Clock } from '../../../core/lib/clock.ts';
import { hasCode } from '../../../core/lib/errors.ts';
import type { JobQueue, PipelineOverview, RunQuery } from '../../queue/job-queue.ts';
import { pageGone } from '../../queue/refusals.ts';
import type { RunPage } from '../../queue/run-filter.ts';
import type { RunRecord } from '../../queue/run-record.ts';
import type { BullmqQueue } from '../bullmq-queue.ts';
import { away, pipelineOfRun, type Shards } from './shards.ts';

/** A run's record and the queue that has it. */
export interface Located {
  queue: BullmqQueue;
  record: RunRecord;
}

interface ShardedReads extends Pick<
  JobQueue,
  'find' | 'untilFinished' | 'list' | 'overview' | 'waitingSince' | 'depth' | 'kept' | 'pauses'
> {
  /**
   * undefined if no Redis knows the run. Throws `queue_unavailable` if a Redis that may know it is
   * unreachable.
   */
  locate(runId: string): Promise<Located | undefined>;
}

const askEveryMs = 500;

/** Reads over all shards. Counts and lists over all pipelines omit unreachable shards. */
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

  /** The answers of all reachable shards. Throws `queue_unavailable` if none answers. */
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

  /** The pipelines by shard, on their current and former shards. */
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

/** Merges the overviews of a pipeline that has runs on two Redis servers. */
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
 * A page of runs from all shards that have any of the pipelines. `before` is a place in all of their lists or
 * the id of a run. With a run id, each other list is read from that run's time.
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
 * Merges several lists of runs into one. Each list keeps its own order of acceptance. Between lists the
 * acceptance times decide. All functions are pure.
 */

/** A reader's place in each of the lists, in their order. */
export type Place = readonly ListPlace[];

/** `null`: nothing read yet; `end`: everything read. */
type ListPlace = { before: string } | 'end' | null;

/** A character that no run id contains. */
const separator = ',';
const endMark = '!';

/** The place as the text that a reader sends back; null if everything was read. */
export function placeText(place: Place): string | null {
  if (place.every((one) => one === 'end')) return null;
  return place.map((one) => (one === null ? '' : one === 'end' ? endMark : one.before)).join(separator);
}

/** null if the text is not a place in `lists` lists, for example a run id. */
export function placeOf(text: string, lists: number): Place | null {
  const parts = text.split(separator);
  if (lists === 1 || parts.length !== lists) return null;
  return parts.map((part) => (part === '' ? null : part === endMark ? 'end' : { before: part }));
}

/**
 * The newest runs of all lists, at most `limit`, and the place after them. A list with unread runs (`next`)
 * ends the page, because those may be newer than the remaining runs of the other lists.
 *
 * @param pages For each list, the page after its place: at least `limit` runs if the list has that many.
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
