import type { Catalog, CatalogState } from '../catalog/catalog.ts';
import { readState } from '../catalog/catalog-store.ts';
import { isKnownDead } from '../catalog/lease/this-holder.ts';
import { nameOf } from '../storage/key.ts';
import { sizesOf } from '../storage/sizes.ts';
import type { Storage } from '../storage/storage.ts';
import { subdirectory } from '../storage/wrappers/subdirectory.ts';
import { parseReleaseId, type ReleaseId, releaseKey, releasesKey } from './release.ts';

/*
 * Reads releases and their states from storage, which is always rooted at the bundle path.
 */

/** A release as found in storage. */
export interface StoredRelease {
  id: ReleaseId;
  /**
   * - `complete`: there is no intent in its catalog.
   * - `writing`: an attempt may be working on it.
   * - `abandoned`: an attempt started it, and is not working on it anymore.
   * - `unreadable`: its catalog is invalid or from a newer version.
   */
  state: 'complete' | 'writing' | 'abandoned' | 'unreadable';
  /** The time when its catalog was written (RFC 3339, UTC); null if unknown. */
  writtenAt: string | null;
}

/** Returns the ids of all releases that have a directory, sorted. */
export async function releaseIds(storage: Storage): Promise<ReleaseId[]> {
  const ids: ReleaseId[] = [];
  for await (const { key, type } of storage.list(releasesKey, { recursive: false })) {
    const id = type === 'directory' ? parseReleaseId(nameOf(key)) : undefined;
    if (id !== undefined) ids.push(id);
  }
  return ids.sort();
}

/**
 * Yields the releases, sorted by id. If the catalog is valid, it is included. Directories without a catalog
 * are skipped, because they have nothing in them yet, or nothing anymore. Throws the storage's error.
 */
export async function* eachRelease(
  storage: Storage,
): AsyncIterable<{ release: StoredRelease; catalog: Catalog | null }> {
  for await (const { id, state } of eachDirectory(storage))
    if (state.kind !== 'absent')
      yield { release: { id, ...stateOf(state) }, catalog: state.kind === 'valid' ? state.catalog : null };
}

/**
 * Like `eachRelease`, except that there are no catalogs. Directories without a catalog are returned as well:
 * an attempt may have just started there, or it may have been killed.
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
    yield { id, state: (await readState(releaseStorage(storage, id))).state };
}

/** The reason why a release cannot become current. */
export type UnusableReason =
  | { why: 'not_found' }
  | { why: 'unfinished' }
  | { why: 'unreadable' }
  | { why: 'damaged'; path: string; others: number };

/** The reason why a switch was refused. `id` is the release that was requested or chosen. */
export type SwitchRefusal =
  | { why: 'foreign_pointer'; target: string }
  | { why: 'no_release' }
  | { why: 'nothing_to_go_back_to' }
  | { why: 'rolled_back'; id: ReleaseId }
  | { why: 'being_removed'; id: ReleaseId }
  | { why: 'overtaken'; id: ReleaseId }
  /** There is a foreign file with the same name as the channel's pointer. */
  | { why: 'name_taken'; name: string }
  | (UnusableReason & { id: ReleaseId });

/**
 * Returns the reason why a release is not complete, or null if it is. Only names and sizes are checked, so a
 * rollback does not have to read any files. Throws the storage's error.
 */
export async function unusableReason(storage: Storage, id: ReleaseId): Promise<UnusableReason | null> {
  const release = releaseStorage(storage, id);
  const { state } = await readState(release);
  if (state.kind === 'absent') return { why: 'not_found' };
  if (state.kind !== 'valid') return { why: 'unreadable' };
  if (state.catalog.pending !== null) return { why: 'unfinished' };
  const [path, ...others] = await damagedIn(release, state.catalog);
  return path === undefined ? null : { why: 'damaged', path, others: others.length };
}

export function releaseStorage(storage: Storage, id: ReleaseId): Storage {
  return subdirectory(storage, releaseKey(id));
}

/** Returns the files that are missing or have the wrong size, in the same order as in the catalog. */
async function damagedIn(release: Storage, { outputs }: Catalog): Promise<string[]> {
  const paths = outputs.map(({ path }) => path);
  const found = await sizesOf(release, paths);
  return outputs.filter(({ path, size }) => found.get(path) !== size).map(({ path }) => path);
}

function stateOf(state: CatalogState): Pick<StoredRelease, 'state' | 'writtenAt'> {
  return state.kind === 'valid' ? releaseState(state.catalog) : { state: 'unreadable', writtenAt: null };
}

/** Returns the state of a release, based on its catalog, which must be valid. */
export function releaseState({
  pending,
  updatedAt,
}: Pick<Catalog, 'pending' | 'updatedAt'>): Pick<StoredRelease, 'state' | 'writtenAt'> {
  if (pending === null) return { state: 'complete', writtenAt: updatedAt };
  const isOver = pending.holder === null || isKnownDead(pending.holder);
  return { state: isOver ? 'abandoned' : 'writing', writtenAt: pending.startedAt };
}
