import type { RelativePath } from '../paths.ts';
import type { Owner, SourceIdentity } from '../identity.ts';
import type { Digest } from '../digest.ts';
import type { Key } from '../storage/key.ts';

export const catalogVersion = 4;

/** What the publisher derived for an output. A change in any of it defeats `skip_same`. */
export interface GeneratedMetadata {
  contentType: string | null;
  cacheControl: string | null;
  /** For generated outputs: which generator, its version, and the digest of what it was made from. */
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

export type AttemptAction = 'publish_new' | 'upsert_additive' | 'replace_catalog' | 'force_replace' | 'prune';

/**
 * The intent: what an attempt that has not committed may have touched. While it stands, its paths count as
 * recorded, the state is never `skip_same`, and no record of a path in it vouches for bytes.
 */
export interface Pending {
  attemptId: string;
  owner: Owner;
  action: AttemptAction;
  startedAt: string;
  /** Null once the attempt has ended without finishing: nobody is at it any more. */
  holder: Holder | null;
  /** Counts the renewals of the lease where the lease lives in the state (object stores). */
  renewals: number;
  /** Full records, so that whoever comes next can settle each path by looking at its bytes. */
  outputs: OutputRecord[];
  /**
   * Names of files as the storage lists them: a forced replacement removes files that no bundle could name.
   */
  removes: Key[];
}

/**
 * Which process, and which of its threads, holds a lease. In containers every process is pid 1, hence the
 * random instance id.
 */
export interface Holder {
  host: string;
  pid: number;
  /** Linux boot id; null elsewhere. */
  bootId: string | null;
  /**
   * Identity of the pid namespace and start time of the process, so that a pid says something; null
   * elsewhere.
   */
  process: string | null;
  /**
   * The system's id and the start time of the thread, because a daemon outlives its threads; null elsewhere.
   */
  thread: string | null;
  instanceId: string;
}

/** What `.publisher.json` holds, schema version 4. Outputs are sorted by path, each path once. */
export interface Catalog {
  generation: number;
  updatedAt: string;
  outputs: OutputRecord[];
  pending: Pending | null;
}

/** A record of a superseded state, as far as that version told. */
export interface LegacyRecord {
  path: RelativePath;
  /** Only v3 names its owner and the file's digest and size. */
  v3: { owner: Owner; digest: Digest; size: number; updatedAt: string } | null;
}

/** What was found under the state's name. A state that cannot be read is an error, never one of these. */
export type CatalogState =
  | { kind: 'absent' }
  | { kind: 'valid'; catalog: Catalog }
  | { kind: 'legacy'; version: 1 | 2 | 3; records: LegacyRecord[] }
  | { kind: 'future'; version: number }
  | { kind: 'invalid'; reason: string };
