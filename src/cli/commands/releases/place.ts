import { managedPaths } from '../../../core/catalog/managed-paths.ts';
import type { DestinationConfig } from '../../../core/config/config.ts';
import type { CoreContext } from '../../../core/context.ts';
import { WaybillError } from '../../../core/errors.ts';
import type { Owner } from '../../../core/identity.ts';
import { withReleasers } from '../../../core/lifecycle.ts';
import { releasePathOf, parseReleaseId, type ReleaseId } from '../../../core/releases/release.ts';
import { releaseIds } from '../../../core/releases/stored-releases.ts';
import { parseBundlePath } from '../../../core/storage/key.ts';
import type { Storage } from '../../../core/storage/storage.ts';
import { within } from '../../../core/storage/wrappers/within.ts';
import { givenBundlePath } from '../../bundle-path.ts';
import { onlyDestination, pipelineOf, unknownName, type SetUp } from '../../set-up.ts';
import type { ReleasesOptions } from './releases-options.ts';

/** A bundle path with releases. */
export interface Place {
  owner: Owner;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** Rooted at the bundle path. */
  storage: Storage;
}

/** The destination that the options name. Throws `usage` if it is published in place. */
export function releasesDestination(
  { config }: Pick<SetUp, 'config'>,
  options: ReleasesOptions,
): DestinationConfig {
  const destination = onlyDestination(pipelineOf(config, options.pipeline), options.destination);
  if (destination.releases !== null) return destination;
  throw new WaybillError(
    'usage',
    `destination "${destination.id}" is published in place: it has no releases`,
    {
      hint: '`layout: releases` on the destination keeps them from the next publication on',
    },
  );
}

/** Opens the destination for as long as `work` takes. */
export async function atDestination<T>(
  context: CoreContext,
  { location }: DestinationConfig,
  { readOnly }: { readOnly: boolean },
  work: (root: Storage) => Promise<T>,
): Promise<T> {
  return withReleasers(async (onRelease) => {
    const root = await context.openStorage(location, { readOnly, dryRun: readOnly });
    onRelease(() => root.close());
    return work(root);
  });
}

/** The bundle path that the options name, or the only one there is. Throws `usage` if that is not clear. */
export async function placeOf(
  root: Storage,
  { id: destinationId, mapping }: DestinationConfig,
  { pipeline: pipelineId, path }: ReleasesOptions,
): Promise<Place> {
  const owner = { pipelineId, destinationId };
  const at = (destinationPath: string): Place => ({
    ...{ owner, destinationPath, storage: within(root, parseBundlePath(destinationPath)) },
  });
  if (path !== undefined) return at(givenBundlePath(path));
  if (mapping === 'fixed') return at('.');
  const [only, ...others] = await pathsWithReleases(root);
  if (only !== undefined && others.length === 0) return at(only);
  throw new WaybillError(
    'usage',
    only === undefined
      ? `nothing is published to destination "${destinationId}" yet`
      : `there are releases of ${others.length + 1} bundle paths: name one`,
    { hint: only === undefined ? 'publish first' : `--path ${[only, ...others].slice(0, 10).join(' | ')}` },
  );
}

/** The bundle paths that have releases, sorted; one recursive listing. */
export async function pathsWithReleases(root: Storage): Promise<string[]> {
  const paths = (await managedPaths(root)).flatMap((path) => releasePathOf(path)?.bundlePath ?? []);
  return [...new Set(paths)];
}

/** The release that was named. Throws `usage` with what was probably meant if there is none of that name. */
export async function releaseNamed({ storage, destinationPath }: Place, name: string): Promise<ReleaseId> {
  const id = parseReleaseId(name);
  const known = await releaseIds(storage);
  if (id !== undefined && known.includes(id)) return id;
  throw unknownName(`release of "${destinationPath}"`, name, [...known].reverse());
}
