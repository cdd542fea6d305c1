import type { Condition } from './conditions.ts';
import type { ObjectHeaders } from '../storage.ts';

/**
 * The calls of S3 that waybill makes, on one bucket and with whole object keys. Each is tried once and has a
 * deadline; its failures are `WaybillError`s: a broken condition is `storage_conflict`, whatever the
 * condition was.
 */
export interface S3Wire {
  /** True where nobody on the way can change a body, so that its parts need not be hashed once more. */
  readonly isEncrypted: boolean;
  /** The server's clock less ours in milliseconds, as its latest answer told it; null before the first. */
  clockOffsetMs(): number | null;

  /**
   * Returns the version. `sha256` is that of the bytes, in hexadecimal: it is signed, so that the server
   * refuses other bytes.
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
  get(key: string): Promise<AsyncIterable<Uint8Array>>;
  head(key: string): Promise<{ size: number; version: string; modifiedAt: Date | null } | undefined>;
  list(options: ListOptions): Promise<ListPage>;
  /** Where there is none, that is success. */
  remove(key: string): Promise<void>;

  /** Returns the id of the upload. `sha256` is null where it is not known beforehand. */
  beginUpload(key: string, options: { sha256: string | null; headers: ObjectHeaders }): Promise<string>;
  /** Returns the ETag of the part. `sha256` null: the bytes are not signed. */
  putPart(
    part: UploadPart,
    bytes: Uint8Array,
    options: { sha256: string | null; signal?: AbortSignal | undefined },
  ): Promise<string>;
  /** Returns the version. */
  completeUpload(upload: Upload, etags: readonly string[]): Promise<string>;
  /** Where there is none, that is success. */
  abortUpload(upload: Upload): Promise<void>;
  /** Uploads that were begun and neither completed nor aborted. */
  unfinishedUploads(prefix: string): Promise<Upload[]>;

  close(): void;
}

export interface ListOptions {
  prefix: string;
  /** One level only: what lies deeper appears as `prefixes`. */
  oneLevel: boolean;
  token: string | null;
  /** Keys a page; null: as many as the server likes. */
  pageSize: number | null;
}

export interface ListPage {
  objects: { key: string; size: number; modifiedAt: Date | null }[];
  /** Each ends with `/`. */
  prefixes: string[];
  /** Of the next page; null after the last. */
  next: string | null;
}

export interface Upload {
  key: string;
  uploadId: string;
}

export interface UploadPart extends Upload {
  /** Counted from 1. */
  number: number;
}
