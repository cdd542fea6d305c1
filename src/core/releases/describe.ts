import type { Catalog, OutputRecord } from '../catalog/catalog.ts';
import { readState, requireCatalog } from '../catalog/store.ts';
import type { Storage } from '../storage/storage.ts';
import { lastGood, rolledBack, type Releases } from './ledger.ts';
import type { ReleaseId } from './release.ts';
import { readReleases } from './store.ts';
import { eachRelease, releaseIn, unusable, type Unusable } from './stored-releases.ts';
import type { StoredRelease } from './retention.ts';

/** One release, for people and JSON. Plain data. */
export interface ReleaseView extends StoredRelease {
  isCurrent: boolean;
  /** A rollback goes to it unless told otherwise. */
  isLastGood: boolean;
  /** It was rolled back, and does not become current again by itself. */
  isRolledBack: boolean;
  isBeingRemoved: boolean;
  /** The channels that lead to it, sorted. */
  channels: string[];
  /** The bundle that it was published from; null if its catalog does not say. */
  bundle: { path: string; created: string } | null;
  /** Recorded outputs and their bytes; null if its catalog is unreadable. */
  outputs: number | null;
  bytes: number | null;
  /** RFC 3339, UTC: when it became current last, and when another did instead; null if never, or not yet. */
  activatedAt: string | null;
  leftAt: string | null;
}

/** Plain data. */
export interface ChannelView {
  name: string;
  /** Null if its pointer is not there, or leads elsewhere. */
  release: ReleaseId | null;
  /** RFC 3339, UTC: when something was published to it last, and when it goes. */
  setAt: string;
  expiresAt: string;
}

export interface ReleasesView {
  /** Null if there is none, or the pointer names something else. */
  current: ReleaseId | null;
  /** What the pointer names instead of a release; else null. */
  foreignTarget: string | null;
  /** Sorted by name. */
  channels: ChannelView[];
  /** The newest first, by when their bundles were created. */
  releases: ReleaseView[];
}

/**
 * The releases of the bundle path that `storage` is rooted at, from pointer, ledger and catalogs. Throws
 * `state_conflict` if the ledger is broken, or the storage's own error.
 */
export async function describeReleases(storage: Storage): Promise<ReleasesView> {
  const found = await readReleases(storage);
  const releases: ReleaseView[] = [];
  for await (const { release, catalog } of eachRelease(storage))
    releases.push(viewOf(release, catalog, found));
  const channels = found.ledger.channels.map(({ name, setAt, expiresAt }) => ({
    ...{ name, release: found.channels.get(name) ?? null, setAt, expiresAt },
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
    channels: [...found.channels].filter(([, led]) => led === id).map(([name]) => name),
    bundle: bundle === undefined ? null : { path: bundle.source.path, created: bundle.created },
    outputs: catalog === null ? null : catalog.outputs.length,
    bytes: catalog === null ? null : catalog.outputs.reduce((sum, { size }) => sum + size, 0),
    activatedAt: activation?.activatedAt ?? null,
    leftAt: found.current === id ? null : (activation?.leftAt ?? null),
  };
}

export interface ReleaseDetails {
  outputs: { path: string; kind: string; digest: string; size: number; url: string | null }[];
  /** Why it could not become current, by names and sizes of its files; null if it could. */
  unusable: Unusable | null;
}

/**
 * What is in one release, and whether all of it is there. Throws `state_conflict` if its catalog is not
 * valid.
 */
export async function releaseDetails(storage: Storage, id: ReleaseId): Promise<ReleaseDetails> {
  const { outputs } = await catalogOf(storage, id);
  return {
    outputs: outputs.map(({ path, kind, digest, size, url }) => ({ path, kind, digest, size, url })),
    unusable: await unusable(storage, id),
  };
}

/** Paths by what becomes of them from one release to another; sorted. */
export interface ReleaseDifference {
  added: string[];
  removed: string[];
  /** Other bytes, or other headers. */
  changed: string[];
  /** How many are the same. */
  same: number;
}

/** Throws `state_conflict` if the catalog of one of them is not valid. */
export async function compareReleases(
  storage: Storage,
  from: ReleaseId,
  to: ReleaseId,
): Promise<ReleaseDifference> {
  const [before, after] = [await catalogOf(storage, from), await catalogOf(storage, to)];
  return differenceBetween(before.outputs, after.outputs);
}

/** Both sorted by path. Pure. */
export function differenceBetween(
  before: readonly OutputRecord[],
  after: readonly OutputRecord[],
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

function isSame(a: OutputRecord, b: OutputRecord): boolean {
  return (
    a.digest === b.digest &&
    a.size === b.size &&
    a.generated.contentType === b.generated.contentType &&
    a.generated.cacheControl === b.generated.cacheControl
  );
}

async function catalogOf(storage: Storage, id: ReleaseId): Promise<Catalog> {
  return requireCatalog((await readState(releaseIn(storage, id))).state);
}
