/* The arguments and results of calls to a bucket. */

export interface ObjectHead {
  /** The size in bytes. */
  size: number;
  version: string;
  modifiedAt: Date | null;
  /**
   * Identifies this content as long as the bucket keeps versions. It is "null" if the object was written
   * before versioning was turned on, and null if the bucket has never had versions.
   */
  storedVersion: string | null;
  /**
   * The SHA-256 that waybill stored along with the object, in hexadecimal. undefined if the object was
   * written by another program.
   */
  sha256: string | undefined;
}

/** The object to copy. By default, it is in the client's own bucket, and there is no `ifMatch` condition. */
export interface CopyFrom {
  key: string;
  bucket?: string;
  version?: string;
  /** Only copy the object if it still has this ETag, given without quotes. */
  ifMatch?: string;
}

export interface ListPage {
  objects: { key: string; size: number; version: string | null; modifiedAt: Date | null }[];
  /** All of them end with `/`. Only used if the listing is limited to one level. */
  prefixes: string[];
  /** The token to use for the next page, or null if this is the last one. */
  next: string | null;
}

export interface OpenUpload {
  key: string;
  uploadId: string;
}

export interface UploadPage {
  uploads: OpenUpload[];
  /** The start of the next page, or null if this is the last one. */
  next: UploadMarker | null;
}

/** The end of a page of uploads. The first page has no marker. */
export interface UploadMarker {
  KeyMarker?: string;
  UploadIdMarker?: string;
}
