import { type Catalog, recordedPaths, isOfRootIndex } from '../../catalog/catalog.ts';
import type { StoredState } from '../../catalog/store.ts';
import { digestOf } from '../../lib/digest.ts';
import { hasCode } from '../../lib/errors.ts';
import { bundlesInFeed } from '../../outputs/root-index/json-feed.ts';
import type { ListedBundle } from '../../outputs/root-index/listed-bundle.ts';
import { sameOwner } from '../../storage/identity.ts';
import type { RelativePath } from '../../lib/paths.ts';
import { readAll } from '../../storage/body.ts';
import { keyOf } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { listingName, rootFileNames, type RootIndex } from './planned-files.ts';

/** The state of a destination root. */
export interface RootSnapshot {
  stored: StoredState;
  /** null if there is none. */
  catalog: Catalog | null;
  /**
   * The listed bundles; null if they are unknown: there is no index yet, an attempt was interrupted, or a
   * file of the index is missing or changed.
   */
  listed: readonly ListedBundle[] | null;
  /** Why there cannot be an index; null if there can. */
  obstacle: string | null;
}

/** Takes no lease. `storage` is rooted at the destination. Throws the storage's error. */
export async function rootSnapshot(
  storage: Storage,
  stored: StoredState,
  index: RootIndex,
): Promise<RootSnapshot> {
  const { state } = stored;
  if (state.kind !== 'absent' && state.kind !== 'valid')
    return { stored, catalog: null, listed: null, obstacle: `the catalog there is ${state.kind}` };
  const catalog = state.kind === 'valid' ? state.catalog : null;
  const obstacle =
    (catalog === null ? null : claimIn(catalog, index)) ?? (await foreignFile(storage, stored));
  const listed = obstacle === null && catalog !== null ? await vouchedListing(storage, catalog) : null;
  return { stored, catalog, listed, obstacle };
}

/** Pure. */
function claimIn({ outputs, pending }: Catalog, { owner }: RootIndex): string | null {
  const names = new Set<string>(rootFileNames);
  for (const record of [...outputs, ...(pending?.outputs ?? [])]) {
    const isOwn = sameOwner(record.owner, owner);
    if (isOwn && !isOfRootIndex(record)) return 'a bundle is published at the root itself';
    if (!isOwn && names.has(record.path)) {
      const { pipelineId, destinationId } = record.owner;
      return `"${record.path}" there belongs to ${pipelineId}/${destinationId}`;
    }
  }
  return null;
}

async function foreignFile(storage: Storage, { state }: StoredState): Promise<string | null> {
  const known = recordedPaths(state);
  for (const name of rootFileNames)
    if (!known.has(name) && (await storage.stat(keyOf(name as string as RelativePath))) !== undefined)
      return `there is an unrecorded file "${name}"`;
  return null;
}

/** The list in the feed, if its bytes have the recorded digest. */
async function vouchedListing(
  storage: Storage,
  { outputs, pending }: Catalog,
): Promise<ListedBundle[] | null> {
  if (pending !== null) return null;
  const own = outputs.filter(isOfRootIndex);
  if (own.length !== rootFileNames.length) return null;
  for (const { path, size } of own) if ((await storage.stat(keyOf(path)))?.size !== size) return null;
  const feed = own.find(({ path }) => path === listingName);
  if (feed === undefined) return null;
  try {
    const bytes = await readAll(storage, keyOf(feed.path), feed.size);
    return digestOf(bytes) === feed.digest ? bundlesInFeed(bytes.toString('utf8')) : null;
  } catch (error) {
    if (hasCode(error, 'storage_not_found')) return null;
    throw error;
  }
}
