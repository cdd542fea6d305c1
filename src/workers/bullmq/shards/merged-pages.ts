import type { RunRecord } from '../../queue/run-record.ts';
import type { RunPage } from '../../queue/run-filter.ts';

/*
 * One list of runs out of several, each with its own order of acceptance, which stays. Between them the times
 * of acceptance decide. All pure.
 */

/** How far a reader is in each of the lists; in their order. */
export type Place = readonly ListPlace[];

/** `null`: nothing was read yet; `end`: everything was. */
export type ListPlace = { before: string } | 'end' | null;

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
