import type { Catalog, OutputRecord } from '../catalog/catalog.ts';
import { reportedPath } from '../catalog/managed-paths.ts';
import { readState, requireCatalog, type StoredState } from '../catalog/store.ts';
import { type Key, parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { channelTargets, lastGood, type Releases, rolledBack } from './ledger.ts';
import { type Layout, type ReleaseId, releasePathOf } from './release.ts';
import { removableFrom } from './retention.ts';
import { readReleases } from './store.ts';
import {
  eachRelease,
  releaseIn,
  releaseState,
  type StoredRelease,
  type Unusable,
  unusable,
} from './stored-releases.ts';

/*
 * Views of a bundle path's releases, for the CLI, the API and the console.
 */

/** One release. Plain data. */
export interface ReleaseView extends StoredRelease {
  isCurrent: boolean;
  /** Whether it is the default rollback target. */
  isLastGood: boolean;
  /** Whether it was rolled back, so that runs do not make it current again. */
  isRolledBack: boolean;
  isBeingRemoved: boolean;
  /** The channels that point at it, sorted. */
  channels: string[];
  /** The bundle that it was published from; null if not recorded in its catalog. */
  bundle: { path: string; created: string } | null;
  /** The number of recorded outputs; null if the catalog is unreadable. */
  outputs: number | null;
  /** The total size of the recorded outputs; null if the catalog is unreadable. */
  bytes: number | null;
  /** When it last became current, as RFC 3339 in UTC; null if never. */
  activatedAt: string | null;
  /** When another release replaced it as current, as RFC 3339 in UTC; null if none did. */
  leftAt: string | null;
}

/** Plain data. */
export interface ChannelView {
  name: string;
  /** null if the pointer is missing or does not point at a release. */
  release: ReleaseId | null;
  /** The time of the last publication to it, as RFC 3339 in UTC. */
  setAt: string;
  /** RFC 3339, UTC. */
  expiresAt: string;
}

export interface ReleasesView {
  /** null if there is no pointer or it does not point at a release. */
  current: ReleaseId | null;
  /** The target of a pointer that does not point at a release; otherwise null. */
  foreignTarget: string | null;
  /** Sorted by name. */
  channels: ChannelView[];
  /** Sorted by the bundle's creation time, newest first. */
  releases: ReleaseView[];
}

/**
 * Returns the releases of the bundle path that `storage` is rooted at, from the pointers, the ledger and the
 * catalogs. Throws `state_conflict` if the ledger is malformed, or the storage's error.
 */
export async function describeReleases(storage: Storage): Promise<ReleasesView> {
  const found = await readReleases(storage);
  const releases: ReleaseView[] = [];
  for await (const { release, catalog } of eachRelease(storage))
    releases.push(viewOf(release, catalog, found));
  const channels = found.ledger.channels.map(({ name, setAt, expiresAt }) => ({
    name,
    release: found.channels.get(name) ?? null,
    setAt,
    expiresAt,
  }));
  const { current, foreignTarget } = found;
  return { current, foreignTarget, channels, releases: releases.reverse() };
}

function viewOf(release: StoredRelease, catalog: Catalog | null, found: Releases): ReleaseView {
  const { id } = release;
  const activation = found.ledger.history.find((one) => one.id === id);
  const [bundle] = catalog?.bundles ?? [];
  return {
    ...release,
    isCurrent: found.current === id,
    isLastGood: lastGood(found) === id,
    isRolledBack: rolledBack(found).includes(id),
    isBeingRemoved: found.ledger.removing.includes(id),
    channels: [...found.channels].filter(([, target]) => target === id).map(([name]) => name),
    bundle: bundle === undefined ? null : { path: bundle.source.path, created: bundle.created },
    outputs: catalog === null ? null : catalog.outputs.length,
    bytes: catalog === null ? null : catalog.outputs.reduce((sum, { size }) => sum + size, 0),
    activatedAt: activation?.activatedAt ?? null,
    leftAt: found.current === id ? null : (activation?.leftAt ?? null),
  };
}

export interface ReleaseDetails {
  outputs: { path: string; kind: string; digest: string; size: number; url: string | null }[];
  /** Why it cannot become current; null if it can. Based on the names and sizes of its files. */
  unusable: Unusable | null;
}

/**
 * Returns the outputs of one release, and whether it is complete. Throws `state_conflict` if its catalog is
 * invalid.
 */
export async function releaseDetails(storage: Storage, id: ReleaseId): Promise<ReleaseDetails> {
  const { outputs } = await catalogOf(storage, id);
  return {
    outputs: outputs.map(({ path, kind, digest, size, url }) => ({ path, kind, digest, size, url })),
    unusable: await unusable(storage, id),
  };
}

/** The differences between two releases, as sorted paths. */
export interface ReleaseDifference {
  added: string[];
  removed: string[];
  /** Paths with different content or headers. */
  changed: string[];
  /** The number of equal paths. */
  same: number;
}

/** Compares two releases. Throws `state_conflict` if either catalog is invalid. */
export async function compareReleases(
  storage: Storage,
  from: ReleaseId,
  to: ReleaseId,
): Promise<ReleaseDifference> {
  const [before, after] = [await catalogOf(storage, from), await catalogOf(storage, to)];
  return differenceBetween(before.outputs, after.outputs);
}

/** The fields that determine whether readers see a change. */
type ComparedOutput = Pick<OutputRecord, 'path' | 'digest' | 'size' | 'generated'>;

/** Compares two lists of outputs, which must be sorted by path. */
export function differenceBetween(
  before: readonly ComparedOutput[],
  after: readonly ComparedOutput[],
): ReleaseDifference {
  const difference: ReleaseDifference = { added: [], removed: [], changed: [], same: 0 };
  const old = new Map(before.map((record) => [record.path, record]));
  for (const record of after) {
    const known = old.get(record.path);
    old.delete(record.path);
    if (known === undefined) difference.added.push(record.path);
    else if (isSame(known, record)) difference.same += 1;
    else difference.changed.push(record.path);
  }
  difference.removed.push(...old.keys());
  return difference;
}

function isSame(a: ComparedOutput, b: ComparedOutput): boolean {
  return (
    a.digest === b.digest &&
    a.size === b.size &&
    a.generated.contentType === b.generated.contentType &&
    a.generated.cacheControl === b.generated.cacheControl
  );
}

/** Returns the catalog of a release. Throws `state_conflict` if it is invalid. */
export async function catalogOf(storage: Storage, id: ReleaseId): Promise<Catalog> {
  return requireCatalog((await readState(releaseIn(storage, id))).state);
}

/**
 * Maps managed paths to bundle paths, in the same order. `.` is the root. A release maps to its bundle path.
 */
export function bundlePathsAmong(managed: readonly (Key | '')[]): string[] {
  return [...new Set(managed.map((path) => releasePathOf(path)?.bundlePath ?? reportedPath(path)))];
}

/**
 * Returns the state published at the bundle path that `storage` is rooted at: the in-place catalog or the
 * catalog of the current release. If a migration left both, `preferred` decides. Throws the storage's error,
 * or `state_conflict` if the ledger is malformed.
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

/** An unfinished release that no pointer points at. Plain data. */
export interface UnfinishedRelease {
  state: 'writing' | 'abandoned';
  /** RFC 3339, UTC. */
  startedAt: string;
  /** The first run after this time removes the release. RFC 3339, UTC; null if no run removes it. */
  removedAfter: string | null;
}

/**
 * Describes a destination's managed path `path` as an unfinished release. Returns null if it is not a
 * release, if it is finished, or if a pointer points or may point at it.
 *
 * @param lingerMs How long a release without readers is kept; null if the destination does not use releases.
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
  if (foreignTarget !== null || current === place.id || channelTargets(releases).includes(place.id))
    return null;
  const release = { id: place.id, ...releaseState({ pending, updatedAt }) };
  return {
    state: release.state === 'abandoned' ? 'abandoned' : 'writing',
    startedAt: pending.startedAt,
    removedAfter: lingerMs === null ? null : removableFrom(releases, release, { lingerMs }),
  };
}
