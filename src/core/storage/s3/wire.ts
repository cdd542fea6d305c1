import type { ObjectHeaders } from '../storage.ts';

/**
 * The S3 calls that waybill makes, on one bucket and with whole object keys. Each is attempted once and has a
 * deadline. Failures are `WaybillError`s with a `storage_*` code; `storage_conflict` means that a condition
 * of either kind did not hold.
 */
export interface S3Wire {
  /** Whether TLS protects bodies from changes on the way, so that parts need not be hashed again. */
  readonly isEncrypted: boolean;
  /** The server's clock minus ours in milliseconds, by its latest answer; null before the first. */
  clockOffsetMs(): number | null;

  /**
   * Stores an object and returns its version. `sha256` is the digest of the bytes in hexadecimal; it is
   * signed, so the server refuses any other bytes.
   */
  put(
    key: string,
    bytes: Uint8Array,
    options: {
      sha256: string;
      headers: ObjectHeaders;
      condition?: Condition | undefined;
      signal?: AbortSignal | undefined;
    },
  ): Promise<string>;
  /** Throws `storage_not_found` if there is no such object. */
  get(key: string): Promise<AsyncIterable<Uint8Array>>;
  /**
   * Undefined if there is no such object. `storedVersion` asks about that version of it, which is a right of
   * its own.
   */
  head(key: string, storedVersion?: string): Promise<ObjectHead | undefined>;
  /**
   * Copies an object or a version of it on the server, with its headers and metadata, replacing what is at
   * `to`. False if there is no such object.
   */
  copy(from: { key: string; version?: string }, to: string): Promise<boolean>;
  list(options: ListOptions): Promise<ListPage>;
  /** Succeeds if there is no such object. */
  remove(key: string): Promise<void>;
  /** Throws `storage_not_found` if there is no such object. Many servers ignore the condition. */
  removeVersion(key: string, condition: Condition): Promise<void>;

  /** Returns the id of the upload. `sha256` is null if it is not known beforehand. */
  beginUpload(key: string, options: { sha256: string | null; headers: ObjectHeaders }): Promise<string>;
  /** Returns the ETag of the part. If `sha256` is null the bytes are not signed. */
  putPart(
    part: UploadPart,
    bytes: Uint8Array,
    options: { sha256: string | null; signal?: AbortSignal | undefined },
  ): Promise<string>;
  /** Makes the object visible and returns its version. `etags` are those of the parts in order. */
  completeUpload(upload: Upload, etags: readonly string[]): Promise<string>;
  /** Succeeds if there is no such upload. */
  abortUpload(upload: Upload): Promise<void>;
  /** The uploads below a prefix that were begun and neither completed nor aborted. */
  unfinishedUploads(prefix: string): Promise<Upload[]>;

  close(): void;
}

export interface ObjectHead {
  size: number;
  version: string;
  modifiedAt: Date | null;
  /**
   * Names this content for as long as the bucket keeps versions; "null" for what was written when it did not,
   * null if it never did.
   */
  storedVersion: string | null;
}

/** A write succeeds only if there is no such object, or only if it has this version. */
export type Condition = { absent: true } | { version: string; form: VersionForm };

/**
 * How a server expects the version in `If-Match`: some compare it with the quotes of the ETag, some without.
 */
export type VersionForm = 'quoted' | 'unquoted';

export interface ListOptions {
  prefix: string;
  /** Lists one level; deeper objects are represented by `prefixes`. */
  oneLevel: boolean;
  /** `next` of the previous page; null for the first page. */
  token: string | null;
  /** Keys per page; null: as many as the server likes. */
  pageSize: number | null;
}

export interface ListPage {
  objects: { key: string; size: number; version: string | null; modifiedAt: Date | null }[];
  /** Each ends with `/`. Empty unless `oneLevel`. */
  prefixes: string[];
  /** The token of the next page; null on the last page. */
  next: string | null;
}

export interface Upload {
  key: string;
  uploadId: string;
}

export interface UploadPart extends Upload {
  /** From 1. */
  number: number;
}
