import type { Catalog, CatalogState } from '../catalog/catalog.ts';
import { readState } from '../catalog/store.ts';
import { isKnownDead } from '../lease/this-holder.ts';
import { nameOf } from '../storage/key.ts';
import type { EntryType, Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { parseReleaseId, releaseKey, releasesKey, type ReleaseId } from './release.ts';
import type { StoredRelease } from './retention.ts';

/**
 * The releases below the bundle path that `storage` is rooted at, sorted by id. What has no catalog is none:
 * nothing was written there yet, or all of it was removed. Reads the catalog of each. Throws the storage's
 * own error.
 */
export async function storedReleases(storage: Storage): Promise<StoredRelease[]> {
  const ids: ReleaseId[] = [];
  for await (const { key, type } of storage.list(releasesKey, { recursive: false })) {
    const id = type === 'directory' ? parseReleaseId(nameOf(key)) : undefined;
    if (id !== undefined) ids.push(id);
  }
  const releases: StoredRelease[] = [];
  for (const id of ids.sort()) {
    const { state } = await readState(releaseIn(storage, id));
    if (state.kind !== 'absent') releases.push({ id, ...standing(state) });
  }
  return releases;
}

/** Why a release cannot become current. */
export type Unusable =
  | { why: 'not_found' }
  | { why: 'unfinished' }
  | { why: 'unreadable' }
  | { why: 'damaged'; path: string; others: number };

/**
 * Whether all of a release is there, by names and sizes: one listing, so that a rollback reads no payload.
 * Null if it is. Throws the storage's own error.
 */
export async function unusable(storage: Storage, id: ReleaseId): Promise<Unusable | null> {
  const release = releaseIn(storage, id);
  const { state } = await readState(release);
  if (state.kind === 'absent') return { why: 'not_found' };
  if (state.kind !== 'valid') return { why: 'unreadable' };
  if (state.catalog.pending !== null) return { why: 'unfinished' };
  const [path, ...others] = await damagedIn(release, state.catalog);
  return path === undefined ? null : { why: 'damaged', path, others: others.length };
}

/** The storage as the publication of this release sees it. */
export function releaseIn(storage: Storage, id: ReleaseId): Storage {
  return within(storage, releaseKey(id));
}

/** In the order of the catalog. */
async function damagedIn(release: Storage, { outputs }: Catalog): Promise<string[]> {
  const found = new Map<string, { type: EntryType; size: number }>();
  for await (const { key, type, size } of release.list('', { recursive: true }))
    found.set(key, { type, size });
  return outputs
    .filter(({ path, size }) => {
      const there = found.get(path);
      return there?.type !== 'file' || there.size !== size;
    })
    .map(({ path }) => path);
}

function standing(state: CatalogState): Pick<StoredRelease, 'state' | 'writtenAt'> {
  if (state.kind !== 'valid') return { state: 'unreadable', writtenAt: null };
  const { pending, updatedAt } = state.catalog;
  if (pending === null) return { state: 'complete', writtenAt: updatedAt };
  const isOver = pending.holder === null || isKnownDead(pending.holder);
  return { state: isOver ? 'abandoned' : 'writing', writtenAt: pending.startedAt };
}
