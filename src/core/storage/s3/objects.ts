/*
 * Values of the calls to a bucket.
 */

export interface ObjectHead {
  /** In bytes. */
  size: number;
  version: string;
  modifiedAt: Date | null;
  /**
   * Names this content for as long as the bucket keeps versions. "null" for an object that is older than the
   * versions of the bucket; null if the bucket never had versions.
   */
  storedVersion: string | null;
  /** SHA-256 that the object was stored with, in hexadecimal; undefined if another program wrote it. */
  sha256: string | undefined;
}

/** The object to copy; `bucket` and `ifMatch` default to the own bucket and to no condition. */
export interface CopyFrom {
  key: string;
  bucket?: string;
  version?: string;
  /** The ETag, unquoted, that the object must still have. */
  ifMatch?: string;
}

export interface ListPage {
  objects: { key: string; size: number; version: string | null; modifiedAt: Date | null }[];
  /** Each ends with `/`. Empty unless the listing has one level. */
  prefixes: string[];
  /** The token of the next page; null on the last page. */
  next: string | null;
}

export interface Upload {
  key: string;
  uploadId: string;
}
