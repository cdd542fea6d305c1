import type { RelativePath } from '../paths.ts';
import type { Owner, SourceIdentity } from '../identity.ts';
import type { Digest } from '../digest.ts';
import type { Instant } from '../instant.ts';
import type { Key } from '../storage/key.ts';

export const catalogVersion = 4;

/** Bytes of a catalog: half a million records of a kilobyte. A larger file is neither read nor written. */
export const maxCatalogBytes = 512 * 1024 * 1024;
/**
 * The same for a catalog that has to be in memory as a whole to be read: one that is not laid out as catalogs
 * are written, or has a single text of more than `maxPieceBytes`.
 */
export const maxWholeCatalogBytes = 256 * 1024 * 1024;
/** Bytes of one record, and of everything besides the records. */
export const maxPieceBytes = 64 * 1024 * 1024;

/** What the publisher derived for an output. A change in any of it defeats `skip_same`. */
export interface GeneratedMetadata {
  contentType: string | null;
  cacheControl: string | null;
  /** For generated outputs: the generator, its version, and the digest of its inputs. */
  generator: { name: string; version: number; inputs: Digest } | null;
}

export interface OutputRecord {
  path: RelativePath;
  owner: Owner;
  source: SourceIdentity;
  kind: string;
  digest: Digest;
  /** Bytes. */
  size: number;
  /** RFC 3339, UTC. Refreshed by every publication of the output that is not `skip_same`. */
  updatedAt: string;
  generated: GeneratedMetadata;
  url: string | null;
}

export type AttemptAction =
  'publish_new' | 'upsert_additive' | 'replace_catalog' | 'force_replace' | 'prune' | 'unpublish';

/**
 * The intent: what an attempt that has not committed may have touched. As long as it stands, its paths count
 * as recorded, the decision is never `skip_same`, and the records of those paths do not vouch for any bytes.
 */
export interface Pending {
  attemptId: string;
  owner: Owner;
  action: AttemptAction;
  /** RFC 3339, UTC. */
  startedAt: string;
  /** Null once the attempt has ended without finishing: no process is working on it any more. */
  holder: Holder | null;
  /** Counts lease renewals if the lease lives in the state (object stores); else 0. */
  renewals: number;
  /** Full records, so that the next attempt can settle each path by reading its bytes. */
  outputs: OutputRecord[];
  /** Names as the storage lists them: a forced replacement removes files that no bundle could contain. */
  removes: Key[];
}

/**
 * The process and thread that hold a lease. In containers every process is pid 1, hence the random instance
 * id.
 */
export interface Holder {
  host: string;
  pid: number;
  /** Linux boot id; null on other systems. */
  bootId: string | null;
  /**
   * The pid namespace and the start time of the process, which together make the pid unambiguous; null on
   * other systems.
   */
  process: string | null;
  /**
   * The system's thread id and the thread's start time: a daemon outlives its threads. Null on other systems.
   */
  thread: string | null;
  instanceId: string;
}

/** The bundle that one owner published last at a bundle path. */
export interface PublishedBundle {
  owner: Owner;
  source: SourceIdentity;
  /** The manifest's `created`. */
  created: Instant;
}

/** The content of `.publisher.json`, schema version 4. Outputs are sorted by path, each path once. */
export interface Catalog {
  /** Counts committed changes; a publication of a new catalog commits generation 1. */
  generation: number;
  /** RFC 3339, UTC: the last commit. */
  updatedAt: string;
  /**
   * One for each owner of outputs, as far as it is known: a `skip_same` leaves it as it is, and catalogs of
   * older versions do not have it.
   */
  bundles: PublishedBundle[];
  outputs: OutputRecord[];
  pending: Pending | null;
}

/** A record of a superseded state, with as much as that version recorded. */
export interface LegacyRecord {
  path: RelativePath;
  /** Only v3 names the owner and the file's digest and size. */
  v3: { owner: Owner; digest: Digest; size: number; updatedAt: string } | null;
}

/** What was found under the state's name. A state that cannot be read is an error, never one of these. */
export type CatalogState =
  | { kind: 'absent' }
  | { kind: 'valid'; catalog: Catalog }
  | { kind: 'legacy'; version: 1 | 2 | 3; records: LegacyRecord[] }
  | { kind: 'future'; version: number }
  | { kind: 'invalid'; reason: string };
