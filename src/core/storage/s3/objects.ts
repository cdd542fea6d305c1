/*
 * Arguments and results of calls to a bucket.
 */

export interface ObjectHead {
  /** The size in bytes. */
  size: number;
  version: string;
  modifiedAt: Date | null;
  /**
   * Identifies this content for as long as the bucket keeps versions. It is "null" for an object that
   * predates the bucket's versioning, and null if the bucket never had versions.
   */
  storedVersion: string | null;
  /**
   * The SHA-256 recorded when the object was stored, in hexadecimal, or undefined if another program wrote
   * it.
   */
  sha256: string | undefined;
}

/** The object to copy. `bucket` defaults to the client's own bucket, and `ifMatch` to no condition. */
export interface CopyFrom {
  key: string;
  bucket?: string;
  version?: string;
  /** The ETag, unquoted, that the object must still have. */
  ifMatch?: string;
}

export interface ListPage {
  objects: { key: string; size: number; version: string | null; modifiedAt: Date | null }[];
  /** Each ends with `/`. Empty unless the listing is limited to one level. */
  prefixes: string[];
  /** The token of the next page, or null on the last page. */
  next: string | null;
}

export interface Upload {
  key: string;
  uploadId: string;
}
