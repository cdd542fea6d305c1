import type { CatalogState, Pending } from './catalog.ts';

/**
 * The paths that waybill manages: the recorded ones and those in the intent of an interrupted attempt. Empty
 * if the state is neither valid nor legacy. Pure.
 */
export function recordedPaths(state: CatalogState): Set<string> {
  if (state.kind === 'legacy') return new Set(state.records.map(({ path }) => path));
  if (state.kind !== 'valid') return new Set();
  const paths = announcedPaths(state.catalog.pending);
  for (const { path } of state.catalog.outputs) paths.add(path);
  return paths;
}

/**
 * The paths that an unfinished attempt may have written or removed, so that their content is unknown. Empty
 * if there is no such attempt. Pure.
 */
export function announcedPaths(pending: Pending | null): Set<string> {
  if (pending === null) return new Set();
  return new Set<string>([...pending.outputs.map(({ path }) => path), ...pending.removes]);
}
