import type { Owner } from '../identity.ts';
import { ancestorsOf } from '../paths.ts';
import { parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import type { CatalogState } from './catalog.ts';
import { readState } from './store.ts';

/** What a catalog above a bundle path has at or below that path. */
export interface ClaimAbove {
  /** The bundle path of that catalog; `.` for the destination root. */
  catalogPath: string;
  /**
   * The first of the files, relative to the destination root, and how many more there are; null if that state
   * is invalid or of a newer version, so that nobody knows.
   */
  files: { first: string; others: number } | null;
  /** Of the first file; null if the state does not say. */
  owner: Owner | null;
}

/**
 * Looks for files at or below `bundlePath` that the catalog of a bundle path above it records or announces:
 * one read of the state for each directory from the root of the destination down. Null if there are none.
 * Throws the storage's own error.
 */
export async function findClaimAbove(root: Storage, bundlePath: string): Promise<ClaimAbove | null> {
  if (bundlePath === '.') return null;
  for (const catalogPath of ['.', ...ancestorsOf(bundlePath)]) {
    const { state } = await readState(within(root, parseBundlePath(catalogPath)));
    const claim = claimOf(state, catalogPath, bundlePath);
    if (claim !== null) return claim;
  }
  return null;
}

/** Pure. */
function claimOf(state: CatalogState, catalogPath: string, bundlePath: string): ClaimAbove | null {
  if (state.kind === 'absent') return null;
  if (state.kind === 'invalid' || state.kind === 'future') return { catalogPath, files: null, owner: null };
  const holders = holdersIn(state);
  const below = catalogPath === '.' ? bundlePath : bundlePath.slice(catalogPath.length + 1);
  const claimed = [...holders.keys()].filter((path) => path === below || path.startsWith(`${below}/`)).sort();
  const [first] = claimed;
  if (first === undefined) return null;
  return {
    catalogPath,
    files: {
      first: catalogPath === '.' ? first : `${catalogPath}/${first}`,
      others: claimed.length - 1,
    },
    owner: holders.get(first) ?? null,
  };
}

function holdersIn(state: Extract<CatalogState, { kind: 'valid' | 'legacy' }>): Map<string, Owner | null> {
  if (state.kind === 'legacy') return new Map(state.records.map(({ path, v3 }) => [path, v3?.owner ?? null]));
  const { outputs, pending } = state.catalog;
  const holders = new Map<string, Owner | null>(pending?.removes.map((path) => [path, pending.owner]));
  for (const { path, owner } of [...(pending?.outputs ?? []), ...outputs]) holders.set(path, owner);
  return holders;
}
