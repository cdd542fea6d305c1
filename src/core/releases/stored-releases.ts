import type { Catalog, CatalogState } from '../catalog/catalog.ts';
import { readState } from '../catalog/store.ts';
import { isKnownDead } from '../lease/this-holder.ts';
import { nameOf } from '../storage/key.ts';
import { sizesOf } from '../storage/sizes.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { parseReleaseId, releaseKey, releasesKey, type ReleaseId } from './release.ts';
import type { StoredRelease } from './retention.ts';

/** The releases that have a directory below the bundle path that `storage` is rooted at, sorted by id. */
export async function releaseIds(storage: Storage): Promise<ReleaseId[]> {
  const ids: ReleaseId[] = [];
  for await (const { key, type } of storage.list(releasesKey, { recursive: false })) {
    const id = type === 'directory' ? parseReleaseId(nameOf(key)) : undefined;
    if (id !== undefined) ids.push(id);
  }
  return ids.sort();
}

/**
 * The releases below the bundle path that `storage` is rooted at, sorted by id, each with its catalog if that
 * is valid. What has no catalog is none: nothing was written there yet, or all of it was removed. Throws the
 * storage's own error.
 */
export async function* eachRelease(
  storage: Storage,
): AsyncIterable<{ release: StoredRelease; catalog: Catalog | null }> {
  for await (const { id, state } of eachDirectory(storage))
    if (state.kind !== 'absent')
      yield { release: { id, ...stateOf(state) }, catalog: state.kind === 'valid' ? state.catalog : null };
}

/**
 * As `eachRelease`, all of them, without their catalogs; and the directories that have none, where somebody
 * may just begin, or was killed as he did.
 */
export async function surveyReleases(
  storage: Storage,
): Promise<{ stored: StoredRelease[]; empty: ReleaseId[] }> {
  const stored: StoredRelease[] = [];
  const empty: ReleaseId[] = [];
  for await (const { id, state } of eachDirectory(storage))
    if (state.kind === 'absent') empty.push(id);
    else stored.push({ id, ...stateOf(state) });
  return { stored, empty };
}

async function* eachDirectory(storage: Storage): AsyncIterable<{ id: ReleaseId; state: CatalogState }> {
  for (const id of await releaseIds(storage))
    yield { id, state: (await readState(releaseIn(storage, id))).state };
}

/** Why a release cannot become current. */
export type Unusable =
  | { why: 'not_found' }
  | { why: 'unfinished' }
  | { why: 'unreadable' }
  | { why: 'damaged'; path: string; others: number };

/**
 * Whether all of a release is there, by names and sizes, so that a rollback reads no payload. Null if it is.
 * Throws the storage's own error.
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
  const paths = outputs.map(({ path }) => path);
  const found = await sizesOf(release, paths);
  return outputs.filter(({ path, size }) => found.get(path) !== size).map(({ path }) => path);
}

function stateOf(state: CatalogState): Pick<StoredRelease, 'state' | 'writtenAt'> {
  return state.kind === 'valid' ? standing(state.catalog) : { state: 'unreadable', writtenAt: null };
}

/** The state of a release according to its valid catalog. Pure. */
export function standing({
  pending,
  updatedAt,
}: Pick<Catalog, 'pending' | 'updatedAt'>): Pick<StoredRelease, 'state' | 'writtenAt'> {
  if (pending === null) return { state: 'complete', writtenAt: updatedAt };
  const isOver = pending.holder === null || isKnownDead(pending.holder);
  return { state: isOver ? 'abandoned' : 'writing', writtenAt: pending.startedAt };
}
