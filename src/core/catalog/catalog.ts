import type { Digest } from '../lib/digest.ts';
import type { Instant } from '../lib/instant.ts';
import type { RelativePath } from '../lib/paths.ts';
import { type Owner, sameOwner, type SourceIdentity } from '../storage/identity.ts';
import type { Key } from '../storage/key.ts';

/*
 * The data types of a catalog, `.publisher.json`, which lists every output published at a bundle path.
 */

export const catalogVersion = 4;

/**
 * The maximum size of a catalog in bytes, enough for half a million records of 1 KiB. A larger file is
 * neither read nor written.
 */
export const maxCatalogBytes = 512 * 1024 * 1024;
/**
 * The maximum size of a catalog that has to be read into memory in one piece, because it is not in canonical
 * form or because one of its records is larger than `maxPieceBytes`.
 */
export const maxWholeCatalogBytes = 256 * 1024 * 1024;
/** The maximum size of a record, and of the document without its records. */
export const maxPieceBytes = 64 * 1024 * 1024;

/**
 * Metadata that is computed rather than taken from the bundle. If any of it changes, the output is not the
 * same, so the decision is not `skip_same`.
 */
export interface GeneratedMetadata {
  contentType: string | null;
  cacheControl: string | null;
  /** For a generated output, the generator's name, its version, and a digest of its inputs. */
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
  /** The time of the last publication of this output that was not `skip_same` (RFC 3339, UTC). */
  updatedAt: string;
  generated: GeneratedMetadata;
  url: string | null;
}

export type AttemptAction =
  'publish_new' | 'upsert_additive' | 'replace_catalog' | 'force_replace' | 'prune' | 'unpublish';

/**
 * The intent of an attempt, which lists the paths it may touch before it commits. As long as it is in the
 * catalog, these paths count as recorded, but there is no telling what is in their files. The decision is
 * therefore never `skip_same`.
 */
export interface Pending {
  attemptId: string;
  owner: Owner;
  action: AttemptAction;
  /** When the attempt started, as RFC 3339 in UTC. */
  startedAt: string;
  /**
   * The process that is working on the attempt. null if the attempt failed and no process is working on it
   * anymore.
   */
  holder: Holder | null;
  /**
   * How many times the lease has been renewed, if the state serves as the lease (on object stores). 0
   * otherwise.
   */
  renewals: number;
  /** Complete records, so that the next attempt can find out for each path whether its file was written. */
  outputs: OutputRecord[];
  /**
   * The files to remove, under the names that the storage lists. A forced replacement also removes files with
   * names that no bundle could use.
   */
  removes: Key[];
}

/**
 * The process and thread that hold a lease. It needs a random instance id, since the main process of every
 * container has pid 1.
 */
export interface Holder {
  host: string;
  pid: number;
  /** Linux boot id, or null on other systems. */
  bootId: string | null;
  /** The pid namespace and the start time of the process, because pids are reused. null if not on Linux. */
  process: string | null;
  /** The id and start time of the thread, because a daemon can outlive its threads. null if not on Linux. */
  thread: string | null;
  instanceId: string;
}

/** The last bundle that an owner published at a bundle path. */
export interface PublishedBundle {
  owner: Owner;
  source: SourceIdentity;
  /** The manifest's `created`. */
  created: Instant;
}

/** The contents of `.publisher.json`, schema version 4. Outputs are sorted by path, without duplicates. */
export interface Catalog {
  /** How many times the catalog has been committed. The first publication is generation 1. */
  generation: number;
  /** The time of the last commit, as RFC 3339 in UTC. */
  updatedAt: string;
  /**
   * No more than one per owner that has outputs. `skip_same` leaves it alone. Catalogs written by older
   * versions do not have it.
   */
  bundles: PublishedBundle[];
  outputs: OutputRecord[];
  pending: Pending | null;
}

/**
 * Returns the generation of the next commit. It stays at 2^53 - 1, which only an edited catalog can have. A
 * larger number would not be exact, and no version could read it.
 */
export function nextGeneration(generation: number): number {
  return Math.min(generation + 1, Number.MAX_SAFE_INTEGER);
}

/** A record from an older schema version. */
export interface LegacyRecord {
  path: RelativePath;
  /** The owner, digest and size, which only version 3 recorded. */
  v3: { owner: Owner; digest: Digest; size: number; updatedAt: string } | null;
}

/**
 * The state of a bundle path. There is no kind for an unreadable state, because reading it throws an error.
 */
export type CatalogState =
  | { kind: 'absent' }
  | { kind: 'valid'; catalog: Catalog }
  | { kind: 'legacy'; version: 1 | 2 | 3; records: LegacyRecord[] }
  | { kind: 'future'; version: number }
  | { kind: 'invalid'; reason: string };

/*
 * Keeps track of the last bundle that each owner published at a bundle path.
 */

/**
 * Returns the last bundle that the owner published. Returns null if there is none, or if it was published by
 * a version that did not record it.
 */
export function publishedBy(state: CatalogState, owner: Owner): PublishedBundle | null {
  if (state.kind !== 'valid') return null;
  return state.catalog.bundles.find((bundle) => sameOwner(bundle.owner, owner)) ?? null;
}

/**
 * Reports whether any of the owner's outputs was committed at `since` (RFC 3339) or later. A publication that
 * changes at least one output updates the times of all of them.
 */
export function isCommittedSince(state: CatalogState, owner: Owner, since: string): boolean {
  return (
    state.kind === 'valid' &&
    state.catalog.outputs.some(
      (output) => sameOwner(output.owner, owner) && Date.parse(output.updatedAt) >= Date.parse(since),
    )
  );
}

/** Returns the bundles, with `published` in place of the last one by the same owner. */
export function withPublished(
  bundles: readonly PublishedBundle[],
  published: PublishedBundle,
): PublishedBundle[] {
  return [...bundles.filter(({ owner }) => !sameOwner(owner, published.owner)), published];
}

/** Leaves out bundles whose owner has no outputs anymore. */
export function bundlesOf(
  bundles: readonly PublishedBundle[],
  outputs: readonly Pick<OutputRecord, 'owner'>[],
): PublishedBundle[] {
  return bundles.filter((bundle) => outputs.some(({ owner }) => sameOwner(owner, bundle.owner)));
}

/**
 * Returns the paths that waybill manages: recorded paths, and those in the intent of an interrupted attempt.
 * Empty if the state is neither valid nor legacy.
 */
export function recordedPaths(state: CatalogState): Set<string> {
  if (state.kind === 'legacy') return new Set(state.records.map(({ path }) => path));
  if (state.kind !== 'valid') return new Set();
  const paths = intentPaths(state.catalog.pending);
  for (const { path } of state.catalog.outputs) paths.add(path);
  return paths;
}

/**
 * Returns the paths that an unfinished attempt may have written or removed, which means that their content is
 * unknown. Empty if there is no unfinished attempt.
 */
export function intentPaths(pending: Pending | null): Set<string> {
  if (pending === null) return new Set();
  return new Set<string>([...pending.outputs.map(({ path }) => path), ...pending.removes]);
}

/** The generator name that identifies the files of a destination's root index. */
export const rootIndexGenerator = 'root_index';

/** Reports whether the output is part of the destination's root index and not of a bundle. */
export function isRootIndexOutput({ generated }: Pick<OutputRecord, 'generated'>): boolean {
  return generated.generator?.name === rootIndexGenerator;
}
