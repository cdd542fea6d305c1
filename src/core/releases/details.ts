import type { DestinationConfig } from '../config/config.ts';
import { type ErrorRecord, errorRecord, WaybillError } from '../lib/errors.ts';
import { describeBundlePath } from '../lib/paths.ts';
import type { Storage } from '../storage/storage.ts';
import { openBundlePath, releaseNamed } from './bundle-place.ts';
import {
  compareReleases,
  describeReleases,
  type ReleaseDetails,
  releaseDetails,
  type ReleaseDifference,
  type ReleaseView,
} from './describe.ts';
import type { ReleaseId } from './release.ts';
import { switchRefused } from './switch.ts';

/*
 * Implements `releases show` and `releases diff` of two releases, for the command line and the API.
 */

/** Selects a bundle path of a destination. */
export interface PlaceChoice {
  destination: Pick<DestinationConfig, 'id' | 'mapping'>;
  /** Default: the only bundle path that has releases. */
  path: string | undefined;
}

/** Plain data. */
export interface ShownRelease {
  destinationPath: string;
  release: ReleaseView & { files: ReleaseDetails['outputs'] };
  /** Why the release could not become current; null if it could. */
  error: ErrorRecord | null;
}

/**
 * Returns a release with its files. `name` is an id, a channel or `current`. Throws the errors of
 * `openBundlePath` and `releaseNamed`, and `state_conflict` if its catalog is invalid.
 */
export async function showRelease(
  root: Storage,
  { destination, path }: PlaceChoice,
  name: string,
): Promise<ShownRelease> {
  const place = await openBundlePath(root, destination, path);
  const { destinationPath, storage } = place;
  const id = await releaseNamed(place, name);
  const view = (await describeReleases(storage)).releases.find((release) => release.id === id);
  if (view === undefined)
    throw new WaybillError('release_not_found', `release ${id} was removed a moment ago`, {
      hint: 'list the releases again',
    });
  const { outputs: files, unusable } = await releaseDetails(storage, id);
  const error =
    unusable === null
      ? null
      : errorRecord(switchRefused({ ...unusable, id }, describeBundlePath(destinationPath)));
  return { destinationPath, release: { ...view, files }, error };
}

/** Plain data. */
interface ComparedReleases extends ReleaseDifference {
  destinationPath: string;
  from: ReleaseId;
  to: ReleaseId;
}

/** Compares two releases, each named as for `showRelease`. Throws the same errors. */
export async function compareNamed(
  root: Storage,
  { destination, path }: PlaceChoice,
  names: { from: string; to: string },
): Promise<ComparedReleases> {
  const place = await openBundlePath(root, destination, path);
  const { destinationPath, storage } = place;
  const from = await releaseNamed(place, names.from);
  const to = await releaseNamed(place, names.to);
  return { destinationPath, from, to, ...(await compareReleases(storage, from, to)) };
}
