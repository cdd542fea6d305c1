import type { Owner } from '../storage/identity.ts';
import { ancestorsOf } from '../lib/paths.ts';
import { parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import type { CatalogState } from './catalog.ts';
import { readState } from './store.ts';

/** Files at or below a bundle path that the catalog of a parent bundle path claims. */
export interface ClaimAbove {
  /** The bundle path of that catalog; `.` for the destination root. */
  catalogPath: string;
  /**
   * The first file, relative to the destination root, and the number of others. null if the files are unknown
   * because the state is invalid or of a newer version.
   */
  files: { first: string; others: number } | null;
  /** The owner of the first file; null if the state does not record it. */
  owner: Owner | null;
}

/**
 * Finds files at or below `bundlePath` that the catalog of a parent bundle path records or announces; null if
 * there are none. Reads one state per directory, from the destination root down. Throws the storage's error.
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
