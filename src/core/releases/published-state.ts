import { reportedPath } from '../catalog/managed-paths.ts';
import { readState, type StoredState } from '../catalog/store.ts';
import type { Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { releasePathOf, type Layout, type ReleaseId } from './release.ts';
import { readReleases } from './store.ts';
import { releaseIn } from './stored-releases.ts';

/**
 * The bundle paths of these managed paths, `.` for the root, in the same order. A release counts as its
 * bundle path. Pure.
 */
export function bundlePathsAmong(managed: readonly (Key | '')[]): string[] {
  return [...new Set(managed.map((path) => releasePathOf(path)?.bundlePath ?? reportedPath(path)))];
}

/**
 * The state published at the bundle path that `storage` is rooted at: the in-place catalog or the catalog of
 * the current release. If a change of layout left both, `preferred` decides. Throws the storage's error, and
 * `state_conflict` if the ledger of the releases is malformed.
 */
export async function publishedState(
  storage: Storage,
  preferred: Layout,
): Promise<StoredState & { release: ReleaseId | null }> {
  const inPlace = { ...(await readState(storage)), release: null };
  if (preferred === 'in_place' && inPlace.state.kind !== 'absent') return inPlace;
  const { current } = await readReleases(storage);
  return current === null ? inPlace : { ...(await readState(releaseIn(storage, current))), release: current };
}
