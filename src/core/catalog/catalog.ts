import type { Digest } from '../lib/digest.ts';
import type { Instant } from '../lib/instant.ts';
import type { RelativePath } from '../lib/paths.ts';
import { type Owner, sameOwner, type SourceIdentity } from '../storage/identity.ts';
import type { Key } from '../storage/key.ts';

/*
 * The types of the catalog, `.publisher.json`. It records every output at one destination bundle path.
 */

export const catalogVersion = 4;

/**
 * The limit in bytes, which is enough for half a million records of 1 KiB. Larger files are neither read nor
 * written.
 */
export const maxCatalogBytes = 512 * 1024 * 1024;
/**
 * The limit for catalogs that have to be read into memory as a whole, because they are not in canonical form
 * or have a record of more than `maxPieceBytes`.
 */
export const maxWholeCatalogBytes = 256 * 1024 * 1024;
/** The limit for one record, and for the document without its records. */
export const maxPieceBytes = 64 * 1024 * 1024;

/**
 * Values that the publisher derived for an output. If any of them changes, the decision is not `skip_same`.
 */
export interface GeneratedMetadata {
  contentType: string | null;
  cacheControl: string | null;
  /** The generator of a generated output, its version, and the digest of its inputs. */
  generator: { name: string; version: number; inputs: Digest } | null;
}

export interface OutputRecord {
  path: RelativePath;
  owner: Owner;
  source: SourceIdentity;
  kind: string;
  digest: Digest;
  /** The size in bytes. */
  size: number;
  /** An RFC 3339 time in UTC. Updated by every publication of the output that is not `skip_same`. */
  updatedAt: string;
  generated: GeneratedMetadata;
  url: string | null;
}

export type AttemptAction =
  'publish_new' | 'upsert_additive' | 'replace_catalog' | 'force_replace' | 'prune' | 'unpublish';

/**
 * The intent: the paths that an uncommitted attempt may have touched. While the catalog has one, these paths
 * count as recorded, their records guarantee no content, and the decision is never `skip_same`.
 */
export interface Pending {
  attemptId: string;
  owner: Owner;
  action: AttemptAction;
  /** When the attempt started, as RFC 3339 in UTC. */
  startedAt: string;
  /** The holder of the attempt, or null if it ended without finishing and no process is working on it. */
  holder: Holder | null;
  /** The number of lease renewals if the state is the lease (object stores), or else 0. */
  renewals: number;
  /** Full records, so that the next attempt can settle each path by reading its bytes. */
  outputs: OutputRecord[];
  /**
   * Names as listed by the storage, because a forced replacement also removes files that no bundle can
   * contain.
   */
  removes: Key[];
}

/**
 * The process and thread that hold a lease. The random instance id is needed because every container's main
 * process has pid 1.
 */
export interface Holder {
  host: string;
  pid: number;
  /** Linux boot id, or null on other systems. */
  bootId: string | null;
  /**
   * The pid namespace and the process's start time, which make the pid unambiguous. null on other systems.
   */
  process: string | null;
  /**
   * The system's thread id and the thread's start time, needed because a daemon outlives its threads. null on
   * other systems.
   */
  thread: string | null;
  instanceId: string;
}

/** The latest bundle that an owner published to a bundle path. */
export interface PublishedBundle {
  owner: Owner;
  source: SourceIdentity;
  /** The manifest's `created`. */
  created: Instant;
}

/**
 * The content of `.publisher.json`, schema version 4. Outputs are sorted by path, and each path occurs once.
 */
export interface Catalog {
  /** The number of commits. The first publication commits generation 1. */
  generation: number;
  /** The time of the last commit, as RFC 3339 in UTC. */
  updatedAt: string;
  /**
   * At most one per owner of outputs. `skip_same` does not change it, and catalogs written by older versions
   * lack it.
   */
  bundles: PublishedBundle[];
  outputs: OutputRecord[];
  pending: Pending | null;
}

/** A record of a superseded schema version. */
export interface LegacyRecord {
  path: RelativePath;
  /** Only version 3 recorded an owner, digest and size. */
  v3: { owner: Owner; digest: Digest; size: number; updatedAt: string } | null;
}

/** The state found at a bundle path. A state that cannot be read is an error, not one of these. */
export type CatalogState =
  | { kind: 'absent' }
  | { kind: 'valid'; catalog: Catalog }
  | { kind: 'legacy'; version: 1 | 2 | 3; records: LegacyRecord[] }
  | { kind: 'future'; version: number }
  | { kind: 'invalid'; reason: string };

/*
 * The latest bundle of each owner at a bundle path.
 */

/**
 * Returns the owner's latest bundle, or null if it has published nothing or only with versions that did not
 * record it.
 */
export function publishedBy(state: CatalogState, owner: Owner): PublishedBundle | null {
  if (state.kind !== 'valid') return null;
  return state.catalog.bundles.find((bundle) => sameOwner(bundle.owner, owner)) ?? null;
}

/**
 * Returns true if any recorded output of the owner was committed at or after `since` (RFC 3339). A
 * publication that changes anything updates the time of all its outputs.
 */
export function isCommittedSince(state: CatalogState, owner: Owner, since: string): boolean {
  return (
    state.kind === 'valid' &&
    state.catalog.outputs.some(
      (output) => sameOwner(output.owner, owner) && Date.parse(output.updatedAt) >= Date.parse(since),
    )
  );
}

/** Returns the bundles with `published` as its owner's latest one. */
export function withPublished(
  bundles: readonly PublishedBundle[],
  published: PublishedBundle,
): PublishedBundle[] {
  return [...bundles.filter(({ owner }) => !sameOwner(owner, published.owner)), published];
}

/** Returns the bundles whose owners still have outputs. */
export function bundlesOf(
  bundles: readonly PublishedBundle[],
  outputs: readonly Pick<OutputRecord, 'owner'>[],
): PublishedBundle[] {
  return bundles.filter((bundle) => outputs.some(({ owner }) => sameOwner(owner, bundle.owner)));
}

/**
 * Returns the paths that waybill manages: the recorded ones and those in the intent of an interrupted
 * attempt. The set is empty if the state is neither valid nor legacy.
 */
export function recordedPaths(state: CatalogState): Set<string> {
  if (state.kind === 'legacy') return new Set(state.records.map(({ path }) => path));
  if (state.kind !== 'valid') return new Set();
  const paths = announcedPaths(state.catalog.pending);
  for (const { path } of state.catalog.outputs) paths.add(path);
  return paths;
}

/**
 * Returns the paths that an unfinished attempt may have written or removed, and whose content is therefore
 * unknown. The set is empty if there is no such attempt.
 */
export function announcedPaths(pending: Pending | null): Set<string> {
  if (pending === null) return new Set();
  return new Set<string>([...pending.outputs.map(({ path }) => path), ...pending.removes]);
}

/** The generator name in the records of a destination's root index. */
export const rootIndexGenerator = 'root_index';

/** Returns true if the output belongs to the destination's root index rather than to a bundle. */
export function isOfRootIndex({ generated }: Pick<OutputRecord, 'generated'>): boolean {
  return generated.generator?.name === rootIndexGenerator;
}
