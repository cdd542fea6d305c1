import { reportedPath } from '../catalog/managed-paths.ts';
import { readState, type StoredState } from '../catalog/store.ts';
import type { Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { releasePathOf, type Layout, type ReleaseId } from './release.ts';
import { readReleases } from './store.ts';
import { releaseIn } from './stored-releases.ts';

/**
 * The bundle paths that these managed paths are published at, `.` for the root, in their order: a release
 * belongs to the bundle path that it is kept for. Pure.
 */
export function bundlePathsAmong(managed: readonly (Key | '')[]): string[] {
  return [...new Set(managed.map((path) => releasePathOf(path)?.bundlePath ?? reportedPath(path)))];
}

/**
 * What is published at the bundle path that `storage` is rooted at: its catalog in place, or that of its
 * current release. Where a change of layout has left both, that of the layout which is preferred. Throws the
 * storage's own error, and `state_conflict` if the ledger of the releases is broken.
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
