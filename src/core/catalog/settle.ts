import type { Digest } from '../digest.ts';
import type { Catalog, OutputRecord } from './catalog.ts';

/** What a path holds in truth; null where nothing is. */
export type Observed = ReadonlyMap<string, { size: number; digest: Digest } | null>;

/**
 * The paths whose bytes must be looked at before an interrupted attempt can be closed: all it may have
 * touched, but those that the coming attempt writes or removes anyway. Pure.
 */
export function pathsToSettle(catalog: Catalog, handled: ReadonlySet<string>): string[] {
  const { pending, outputs } = catalog;
  if (pending === null) return [];
  const recorded = new Set<string>(outputs.map(({ path }) => path));
  const touched = new Set<string>(pending.outputs.map(({ path }) => path));
  for (const path of pending.removes) if (recorded.has(path)) touched.add(path);
  return [...touched].filter((path) => !handled.has(path));
}

/**
 * The records as they are true once `observed` is known: a path that is gone has none; one that holds what
 * the interrupted attempt meant to write has that attempt's record; any other keeps its record with the size
 * and digest it really has, so that it stays ours and the next plan of its owner finds the difference. Pure.
 */
export function settle(catalog: Catalog, observed: Observed): OutputRecord[] {
  const intended = new Map<string, OutputRecord>(
    catalog.pending?.outputs.map((record) => [record.path, record]),
  );
  const recorded = new Map<string, OutputRecord>(catalog.outputs.map((record) => [record.path, record]));
  for (const [path, truth] of observed) {
    if (truth === null) {
      recorded.delete(path);
      continue;
    }
    const meant = intended.get(path);
    const known = recorded.get(path);
    const record = meant?.digest === truth.digest ? meant : (known ?? meant);
    if (record !== undefined) recorded.set(path, { ...record, size: truth.size, digest: truth.digest });
  }
  return [...recorded.values()];
}
