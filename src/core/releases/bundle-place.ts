import { managedPaths } from '../catalog/managed-paths.ts';
import type { DestinationConfig, PipelineConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import type { ErrorCode } from '../lib/error-codes.ts';
import { WaybillError } from '../lib/errors.ts';
import { withReleasers } from '../lib/lifecycle.ts';
import { describeBundlePath } from '../lib/paths.ts';
import { shellQuoted, suggestion } from '../lib/text.ts';
import type { StorageLocation } from '../storage/backends.ts';
import { parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { subdirectory } from '../storage/wrappers/subdirectory.ts';
import { describeReleases, type ReleasesView } from './describe.ts';
import { parseReleaseId, type ReleaseId, releasePathOf } from './release.ts';
import { readReleases } from './releases-store.ts';
import { releaseIds } from './stored-releases.ts';

/*
 * Looks up destinations, bundle paths, releases and channels by the names that users give. If a name is
 * unknown, the error suggests a similar one.
 */

export interface BundlePlace {
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** Rooted at the bundle path. */
  storage: Storage;
}

/**
 * Returns the destination called `name`. Throws `destination_not_found` with a suggestion if it does not
 * exist.
 */
export function destinationNamed({ id, destinations }: PipelineConfig, name: string): DestinationConfig {
  const found = destinations.find((destination) => destination.id === name);
  if (found !== undefined) return found;
  const known = destinations.map((destination) => destination.id);
  throw unknownName('destination_not_found', 'destination', name, known, `in the pipeline "${id}"`);
}

/** Throws a `no_releases` error if the destination uses the in-place layout. */
export function requireReleasesLayout({ id, releases }: Pick<DestinationConfig, 'id' | 'releases'>): void {
  if (releases !== null) return;
  throw new WaybillError('no_releases', `destination "${id}" is published in place: it has no releases`, {
    hint: 'set `layout: releases` on the destination to keep releases from the next publication on',
  });
}

/**
 * Returns the destinations that define this channel. If none does, throws `channel_not_found` with a
 * suggestion.
 */
export function destinationsWithChannel<T extends Pick<DestinationConfig, 'releases'>>(
  destinations: readonly T[],
  channel: string,
): T[] {
  const has = ({ releases }: T): boolean => releases?.channels.some(({ name }) => name === channel) === true;
  const found = destinations.filter(has);
  if (found.length > 0) return found;
  const known = destinations.flatMap(({ releases }) => releases?.channels.map(({ name }) => name) ?? []);
  throw unknownName('channel_not_found', 'channel', channel, [...new Set(known)].sort());
}

/** Opens the destination for `work`, and closes it afterwards. */
export async function withDestination<T>(
  context: CoreContext,
  { location }: { location: StorageLocation },
  { readOnly }: { readOnly: boolean },
  work: (root: Storage) => Promise<T>,
): Promise<T> {
  return withReleasers(async (onRelease) => {
    const root = await context.openStorage(location, { readOnly, dryRun: readOnly });
    onRelease(() => root.close());
    return work(root);
  });
}

/**
 * Returns the bundle path to work on: `path` or, if that is not set, the only one that has releases. Throws
 * `bundle_path_needed` if more than one does, `not_published` if none does, or the storage's error.
 */
export async function openBundlePath(
  root: Storage,
  { id, mapping }: Pick<DestinationConfig, 'id' | 'mapping'>,
  path: string | undefined,
): Promise<BundlePlace> {
  if (path !== undefined) return bundlePlace(root, path);
  if (mapping === 'fixed') return bundlePlace(root, '.');
  const [only, ...others] = await pathsWithReleases(root);
  if (only === undefined) throw notPublished(id);
  if (others.length === 0) return bundlePlace(root, only);
  throw severalPaths([only, ...others]);
}

export function notPublished(destinationId: string): WaybillError {
  return new WaybillError('not_published', `nothing is published to destination "${destinationId}" yet`, {
    hint: 'publish first',
  });
}

export function severalPaths(paths: readonly string[]): WaybillError {
  return new WaybillError('bundle_path_needed', `${paths.length} bundle paths have releases: choose one`, {
    hint: `add --path ${paths.slice(0, 10).map(shellQuoted).join(' | ')}; over HTTP, ?path=`,
  });
}

/**
 * Returns the release with this id, the release that this channel points at, or the `current` one. Throws
 * `release_not_found` with a suggestion, or any error from `readReleases`.
 */
export async function releaseNamed(
  { storage, destinationPath }: BundlePlace,
  name: string,
): Promise<ReleaseId> {
  const id = parseReleaseId(name);
  const known = await releaseIds(storage);
  if (id !== undefined && known.includes(id)) return id;
  const { channels, current } = await readReleases(storage);
  const target = name === 'current' ? current : channels.get(name);
  if (target != null) return target;
  const names = [...channels.keys(), ...[...known].reverse()];
  throw unknownName(
    'release_not_found',
    'release or channel',
    name,
    names,
    `at ${describeBundlePath(destinationPath)}`,
  );
}

export interface ListedPath extends ReleasesView {
  destinationPath: string;
}

/**
 * Returns the releases at a bundle path. Without `path`, returns the releases at all bundle paths, sorted by
 * path. Throws the same errors as `describeReleases`.
 */
export async function listReleases(
  root: Storage,
  { mapping }: Pick<DestinationConfig, 'mapping'>,
  path: string | undefined,
): Promise<ListedPath[]> {
  const only = path ?? (mapping === 'fixed' ? '.' : undefined);
  const listed: ListedPath[] = [];
  for (const destinationPath of only === undefined ? await pathsWithReleases(root) : [only])
    listed.push({ destinationPath, ...(await describeReleases(bundlePlace(root, destinationPath).storage)) });
  return listed;
}

/** Returns the bundle paths that have releases, sorted. Lists the destination once, recursively. */
export async function pathsWithReleases(root: Storage): Promise<string[]> {
  const paths = (await managedPaths(root)).flatMap((path) => releasePathOf(path)?.bundlePath ?? []);
  return [...new Set(paths)];
}

/** Returns the place for a bundle path, without checking that it has any releases. */
export function bundlePlace(root: Storage, destinationPath: string): BundlePlace {
  return { destinationPath, storage: subdirectory(root, parseBundlePath(destinationPath)) };
}

const firstUseHints: Partial<Record<ErrorCode, string>> = {
  channel_not_found:
    'add the channel to `releases.channels` of a destination with layout: releases, then publish to it',
};

/**
 * Returns an error for a name that does not exist. Its hint suggests the most similar name and lists the
 * others. `where` ends the message, e.g. `in the pipeline "docs"`.
 */
export function unknownName(
  code: ErrorCode,
  what: string,
  name: string,
  known: readonly string[],
  where = '',
): WaybillError {
  return new WaybillError(code, `there is no ${what} named "${name}"${where === '' ? '' : ` ${where}`}`, {
    hint:
      known.length === 0
        ? (firstUseHints[code] ?? 'nothing has been published there: publish first')
        : suggestion(name, known),
  });
}
