import type { Catalog, CatalogState } from '../catalog/catalog.ts';
import { isKnownDead } from '../catalog/lease/this-holder.ts';
import { readState } from '../catalog/store.ts';
import { nameOf } from '../storage/key.ts';
import { sizesOf } from '../storage/sizes.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { parseReleaseId, type ReleaseId, releaseKey, releasesKey } from './release.ts';

/*
 * Reads releases and their state from storage. `storage` is always rooted at the bundle path.
 */

/** A release found in storage. */
export interface StoredRelease {
  id: ReleaseId;
  /**
   * - `complete`: its catalog contains no intent.
   * - `writing`: an attempt may be working on it.
   * - `abandoned`: an attempt started it but is no longer working on it.
   * - `unreadable`: its catalog is invalid or has a newer version.
   */
  state: 'complete' | 'writing' | 'abandoned' | 'unreadable';
  /** When its catalog was written, as RFC 3339 in UTC; null if unknown. */
  writtenAt: string | null;
}

/** Returns the ids of all releases with a directory, sorted. */
export async function releaseIds(storage: Storage): Promise<ReleaseId[]> {
  const ids: ReleaseId[] = [];
  for await (const { key, type } of storage.list(releasesKey, { recursive: false })) {
    const id = type === 'directory' ? parseReleaseId(nameOf(key)) : undefined;
    if (id !== undefined) ids.push(id);
  }
  return ids.sort();
}

/**
 * Yields the releases, sorted by id, each with its catalog if the catalog is valid. Skips directories without
 * a catalog: either nothing has been written there yet, or everything was removed. Throws the storage's
 * error.
 */
export async function* eachRelease(
  storage: Storage,
): AsyncIterable<{ release: StoredRelease; catalog: Catalog | null }> {
  for await (const { id, state } of eachDirectory(storage))
    if (state.kind !== 'absent')
      yield { release: { id, ...stateOf(state) }, catalog: state.kind === 'valid' ? state.catalog : null };
}

/**
 * Like `eachRelease`, but without catalogs. Also returns the directories without a catalog, where an attempt
 * may be just starting or was killed.
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

/** Why a switch was refused. `id` is the requested or chosen release. */
export type SwitchRefusal =
  | { why: 'foreign_pointer'; target: string }
  | { why: 'nothing_to_go_back_to' }
  | { why: 'rolled_back'; id: ReleaseId }
  | { why: 'being_removed'; id: ReleaseId }
  | { why: 'overtaken'; id: ReleaseId }
  /** A foreign file has the same name as the channel's pointer. */
  | { why: 'name_taken'; name: string }
  | (Unusable & { id: ReleaseId });

/**
 * Returns why a release is incomplete, or null if it is complete. Checks only names and sizes, so that a
 * rollback does not read file contents. Throws the storage's error.
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

/** Returns the storage rooted at this release. */
export function releaseIn(storage: Storage, id: ReleaseId): Storage {
  return within(storage, releaseKey(id));
}

/** Returns the files that are missing or differ in size, in catalog order. */
async function damagedIn(release: Storage, { outputs }: Catalog): Promise<string[]> {
  const paths = outputs.map(({ path }) => path);
  const found = await sizesOf(release, paths);
  return outputs.filter(({ path, size }) => found.get(path) !== size).map(({ path }) => path);
}

function stateOf(state: CatalogState): Pick<StoredRelease, 'state' | 'writtenAt'> {
  return state.kind === 'valid' ? releaseState(state.catalog) : { state: 'unreadable', writtenAt: null };
}

/** Returns a release's state according to its catalog, which must be valid. */
export function releaseState({
  pending,
  updatedAt,
}: Pick<Catalog, 'pending' | 'updatedAt'>): Pick<StoredRelease, 'state' | 'writtenAt'> {
  if (pending === null) return { state: 'complete', writtenAt: updatedAt };
  const isOver = pending.holder === null || isKnownDead(pending.holder);
  return { state: isOver ? 'abandoned' : 'writing', writtenAt: pending.startedAt };
}
