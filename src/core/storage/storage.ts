import type { Digest } from '../digest.ts';
import type { Key } from './key.ts';

/**
 * The storage contract: what publication needs of a place that holds bytes under keys.
 *
 * A storage is opened at a root and sees nothing outside it. Keys are relative paths (`Key`); directories are
 * implied by keys and are not things of their own: writing makes what is missing, removing the last file of a directory
 * removes the directory, up to and not including the root.
 *
 * Every implementation passes the one suite in `test/contract/storage.ts`, which is this page in executable form.
 * Failures are `WaybillError`s of the `storage_*` codes or `body_mismatch`; `storage_transient` promises that trying the same call again
 * is safe and may help. A failure is never turned into a success, and a time-out is a failure.
 */
export interface Storage {
  /** For people: backend and location, without secrets, e.g. `local /srv/www`. */
  readonly label: string;
  readonly facts: StorageFacts;

  /** The file under `key`, or undefined where there is none (also where `key` is a directory). */
  stat(key: Key): Promise<FileStat | undefined>;

  /**
   * What lies below `directory` (the root where it is ''), in no particular order: one level where `recursive` is
   * false, else every file at any depth. Directories appear as entries only in one-level listings. A directory that does not exist is empty.
   */
  list(directory: Key | '', options: { recursive: boolean }): AsyncIterable<Entry>;

  /** The bytes under `key`, in order. Throws `storage_not_found` on the first step where there are none. */
  read(key: Key): AsyncIterable<Uint8Array>;

  /**
   * Stores `body` under `key` and returns the version stored.
   *
   * The body is stored whole and verified, or not at all: where it ends early, runs over, or has another digest than the one expected,
   * the call fails with `body_mismatch` and the key holds what it held before. Exceptions to "held before": see `WriteMode`.
   */
  write(key: Key, body: Body, options: WriteOptions): Promise<Written>;

  /**
   * Moves a file over `to`, replacing what is there in one step where `facts.rename` is `atomic`. Fails with
   * `storage_not_found` where `from` is not there. Only storages whose `facts.rename` is not `none` have it; the others throw.
   */
  rename(from: Key, to: Key): Promise<void>;

  /** Removes the file; where there is none, that is success. */
  remove(key: Key): Promise<void>;

  /**
   * Makes everything below `directory` unreachable under its old keys at once (where `facts.rename` is not `none`), then
   * removes it. Where there is nothing, that is success.
   */
  removeTree(directory: Key): Promise<void>;

  /** Gives back connections and handles; a second call does nothing. */
  close(): Promise<void>;
}

/** What differs between backends, found when the storage is opened, never assumed from its name. */
export interface StorageFacts {
  /**
   * `atomic`: rename replaces in one step. `replace_in_steps`: old aside, new in, old away; a reader may for a moment see nothing.
   * `none`: an object store; whole objects are put in place.
   */
  rename: 'atomic' | 'replace_in_steps' | 'none';
  /** Which conditions `write` honours: `full` (absent and version), `create` (absent only), `none`. */
  conditionalWrites: 'full' | 'create' | 'none';
}

export interface FileStat {
  size: number;
  /** Identifies the content for `WriteOptions.ifVersion`; null where the backend has none. */
  version: string | null;
}

export interface Entry {
  key: Key;
  type: 'file' | 'directory' | 'link' | 'other';
  /** Bytes; 0 where the type is not `file`. */
  size: number;
}

/** Bytes that can be read again from the start, so that a retry is just another `open()`. */
export interface Body {
  readonly size: number;
  open(): AsyncIterable<Uint8Array>;
  /**
   * Where the bytes are a file of this machine, its path: a local storage then copies from file to file, without
   * passing each chunk through an iterator. Optional because it is an accelerator, never a different meaning.
   */
  readonly localPath?: string;
}

/**
 * `replace`: in place of whatever is there, in one step. `create`: only where nothing is, else `storage_exists`; of any
 * number of contenders exactly one succeeds. `scratch`: for names that nobody else reads and that a rename follows; it may leave partial
 * bytes under the key when it fails, makes no directories above the last two segments' parent, and is synced to disk.
 */
export type WriteMode = 'replace' | 'create' | 'scratch';

export interface WriteOptions {
  mode: WriteMode;
  /** The digest the body must have. */
  digest?: Digest;
  /** Only where the stored version is this one, else `storage_conflict`. Needs `conditionalWrites: 'full'`. */
  ifVersion?: string;
  /** What an object store keeps beside the bytes; file systems have no place for it. */
  headers?: ObjectHeaders;
  signal?: AbortSignal;
  /** Called with the number of bytes of each chunk taken from the body. */
  onBytes?: (count: number) => void;
}

export interface ObjectHeaders {
  contentType?: string;
  cacheControl?: string;
}

export interface Written {
  size: number;
  digest: Digest;
  version: string | null;
}
