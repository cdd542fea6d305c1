import type { Catalog } from '../catalog/catalog.ts';
import { parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { ledTo } from './ledger.ts';
import { releasePathOf } from './release.ts';
import { removableFrom } from './retention.ts';
import { readReleases } from './store.ts';
import { releaseState } from './stored-releases.ts';

/** An unfinished release without a pointer to it. Plain data. */
export interface UnfinishedRelease {
  state: 'writing' | 'abandoned';
  /** RFC 3339, UTC. */
  startedAt: string;
  /** RFC 3339, UTC: the first run after this time removes the release; null if no run removes it. */
  removedAfter: string | null;
}

/**
 * Describes the managed path `path` of a destination as an unfinished release. null if it is not a release,
 * is finished, or a pointer leads or may lead to it.
 *
 * @param lingerMs How long a release is kept without readers; null if the destination keeps no releases.
 */
export async function unfinishedRelease(
  root: Storage,
  path: string,
  { pending, updatedAt }: Pick<Catalog, 'pending' | 'updatedAt'>,
  lingerMs: number | null,
): Promise<UnfinishedRelease | null> {
  const place = releasePathOf(path);
  if (place === null || pending === null) return null;
  const releases = await readReleases(within(root, parseBundlePath(place.bundlePath)));
  const { current, foreignTarget } = releases;
  if (foreignTarget !== null || current === place.id || ledTo(releases).includes(place.id)) return null;
  const release = { id: place.id, ...releaseState({ pending, updatedAt }) };
  return {
    state: release.state === 'abandoned' ? 'abandoned' : 'writing',
    startedAt: pending.startedAt,
    removedAfter: lingerMs === null ? null : removableFrom(releases, release, { lingerMs }),
  };
}
