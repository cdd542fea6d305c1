import type { CatalogState, Pending } from './catalog.ts';

/**
 * The paths at a bundle path that belong to waybill: the recorded ones, and those that an interrupted attempt
 * announced. Empty if the state is neither valid nor legacy. Pure.
 */
export function recordedPaths(state: CatalogState): Set<string> {
  if (state.kind === 'legacy') return new Set(state.records.map(({ path }) => path));
  if (state.kind !== 'valid') return new Set();
  const paths = announcedPaths(state.catalog.pending);
  for (const { path } of state.catalog.outputs) paths.add(path);
  return paths;
}

/**
 * The paths that an unfinished attempt may have written or removed: their bytes may be old, new or gone.
 * Empty if there is no such attempt. Pure.
 */
export function announcedPaths(pending: Pending | null): Set<string> {
  if (pending === null) return new Set();
  return new Set<string>([...pending.outputs.map(({ path }) => path), ...pending.removes]);
}
