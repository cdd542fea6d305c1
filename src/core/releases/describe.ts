import type { Catalog, OutputRecord } from '../catalog/catalog.ts';
import { readState, requireCatalog, type StoredState } from '../catalog/catalog-store.ts';
import { displayPath } from '../catalog/managed-paths.ts';
import { type Key, parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { subdirectory } from '../storage/wrappers/subdirectory.ts';
import { channelTargets, lastGoodRelease, type Releases, rolledBackReleases } from './ledger.ts';
import { type Layout, type ReleaseId, releasePathOf } from './release.ts';
import { readReleases } from './releases-store.ts';
import { removableSince } from './retention.ts';
import {
  eachRelease,
  releaseState,
  releaseStorage,
  type StoredRelease,
  type UnusableReason,
  unusableReason,
} from './stored-releases.ts';

/*
 * Describes the releases of a bundle path for the CLI, the API and the console.
 */

/** A release. Plain data. */
export interface ReleaseView extends StoredRelease {
  isCurrent: boolean;
  /** Whether this is the release that a rollback goes to by default. */
  isLastGood: boolean;
  /** Whether the release was rolled back. Runs do not make it current again then. */
  isRolledBack: boolean;
  isBeingRemoved: boolean;
  /** The channels that point at it, sorted. */
  channels: string[];
  /** The bundle that it was published from; null if the catalog does not say. */
  bundle: { path: string; created: string } | null;
  /** How many outputs are recorded; null if the catalog cannot be read. */
  outputs: number | null;
  /** The size of all recorded outputs in bytes; null if the catalog cannot be read. */
  bytes: number | null;
  /** The last time it became current (RFC 3339, UTC); null if it never was. */
  activatedAt: string | null;
  /** The last time another release replaced it (RFC 3339, UTC); null if that never happened. */
  leftAt: string | null;
}

/** A channel. Plain data. */
interface ChannelView {
  name: string;
  /** null if the pointer is missing or points at something other than a release. */
  release: ReleaseId | null;
  /** The last time something was published to it (RFC 3339, UTC). */
  setAt: string;
  /** RFC 3339, UTC. */
  expiresAt: string;
}

export interface ReleasesView {
  /** null if there is no pointer, or if it points at something other than a release. */
  current: ReleaseId | null;
  /** The target of the pointer, if it is not a release; null otherwise. */
  foreignTarget: string | null;
  /** Sorted by name. */
  channels: ChannelView[];
  /** Sorted by the creation time of the bundle, newest first. */
  releases: ReleaseView[];
}

/**
 * Returns the releases of the bundle path that `storage` is rooted at, based on the pointers, the ledger and
 * the catalogs. Throws `state_conflict` if the ledger is malformed, or the storage's error.
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
    isLastGood: lastGoodRelease(found) === id,
    isRolledBack: rolledBackReleases(found).includes(id),
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
  /**
   * The reason why it cannot become current; null if it can. Only the names and sizes of files are checked.
   */
  unusable: UnusableReason | null;
}

/**
 * Returns the outputs of a release, and whether they are all there. Throws `state_conflict` if its catalog is
 * invalid.
 */
export async function releaseDetails(storage: Storage, id: ReleaseId): Promise<ReleaseDetails> {
  const { outputs } = await catalogOf(storage, id);
  return {
    outputs: outputs.map(({ path, kind, digest, size, url }) => ({ path, kind, digest, size, url })),
    unusable: await unusableReason(storage, id),
  };
}

/** The paths that are different between two releases. Each list is sorted. */
export interface ReleaseDifference {
  added: string[];
  removed: string[];
  /** Paths whose content or headers are different. */
  changed: string[];
  /** How many paths are the same. */
  same: number;
}

/** Compares two releases. Throws a `state_conflict` error if one of the catalogs is invalid. */
export async function compareReleases(
  storage: Storage,
  from: ReleaseId,
  to: ReleaseId,
): Promise<ReleaseDifference> {
  const before = await catalogOf(storage, from);
  const after = await catalogOf(storage, to);
  return differenceBetween(before.outputs, after.outputs);
}

/** The parts of an output that make a difference to readers. */
type ComparedOutput = Pick<OutputRecord, 'path' | 'digest' | 'size' | 'generated'>;

/** Compares two lists of outputs. Both have to be sorted by path. */
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
  difference.removed = [...old.keys()];
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

/** Returns a release's catalog. Throws a `state_conflict` error if it is invalid. */
export async function catalogOf(storage: Storage, id: ReleaseId): Promise<Catalog> {
  return requireCatalog((await readState(releaseStorage(storage, id))).state);
}

/**
 * Turns managed paths into bundle paths and keeps their order. The root is `.`. For a release, the result has
 * the bundle path that it belongs to.
 */
export function bundlePathsAmong(managed: readonly (Key | '')[]): string[] {
  return [...new Set(managed.map((path) => releasePathOf(path)?.bundlePath ?? displayPath(path)))];
}

/**
 * Returns the state published at the bundle path that `storage` is rooted at. It comes from the catalog of
 * the current release or, with the in-place layout, from the one at the bundle path. If a migration left
 * both, `preferred` decides. Throws `state_conflict` if the ledger is malformed, or the storage's error.
 */
export async function publishedState(
  storage: Storage,
  preferred: Layout,
): Promise<StoredState & { release: ReleaseId | null }> {
  const inPlace = { ...(await readState(storage)), release: null };
  if (preferred === 'in_place' && inPlace.state.kind !== 'absent') return inPlace;
  const { current } = await readReleases(storage);
  return current === null
    ? inPlace
    : { ...(await readState(releaseStorage(storage, current))), release: current };
}

/** A release that was not finished and has no pointer. Plain data. */
export interface UnfinishedRelease {
  state: 'writing' | 'abandoned';
  /** RFC 3339, UTC. */
  startedAt: string;
  /** The time after which the next run removes the release (RFC 3339, UTC); null if no run will. */
  removedAfter: string | null;
}

/**
 * Describes the release at `path`, if it is unfinished and no pointer points at it, now or soon. Returns null
 * in all other cases, including when `path` is not a release.
 *
 * @param lingerMs How long to keep a release that has no readers; null if the destination does not use
 * releases.
 */
export async function unfinishedRelease(
  root: Storage,
  path: string,
  { pending, updatedAt }: Pick<Catalog, 'pending' | 'updatedAt'>,
  lingerMs: number | null,
): Promise<UnfinishedRelease | null> {
  const place = releasePathOf(path);
  if (place === null || pending === null) return null;
  const releases = await readReleases(subdirectory(root, parseBundlePath(place.bundlePath)));
  const { current, foreignTarget } = releases;
  if (foreignTarget !== null || current === place.id || channelTargets(releases).includes(place.id))
    return null;
  const release = { id: place.id, ...releaseState({ pending, updatedAt }) };
  return {
    state: release.state === 'abandoned' ? 'abandoned' : 'writing',
    startedAt: pending.startedAt,
    removedAfter: lingerMs === null ? null : removableSince(releases, release, { lingerMs }),
  };
}
