import type { Digest } from '../digest.ts';
import type { Key } from './key.ts';

/**
 * The storage contract: what publication needs of a place that holds bytes under keys.
 *
 * A storage is opened at a root and sees nothing outside it. Keys are relative paths (`Key`); directories are
 * implied by keys and are not things of their own: writing makes what is missing, removing the last file of a
 * directory removes the directory, up to and not including the root.
 *
 * Every implementation passes the one suite in `test/contract/storage.ts`, which is this page in executable
 * form. Failures are `WaybillError`s of the `storage_*` codes or `body_mismatch`; `storage_transient`
 * promises that trying the same call again is safe and may help. A failure is never turned into a success,
 * and a time-out is a failure.
 */
export interface Storage {
  /**
   * For messages: what it is, without secrets and without paths of the host, since messages travel further
   * than this machine.
   */
  readonly label: string;
  readonly facts: StorageFacts;

  /**
   * What is under `key`, links not followed, or undefined where nothing is. Object stores know only files.
   */
  stat(key: Key): Promise<FileStat | undefined>;

  /**
   * What lies below `directory` (the root where it is ''), in no particular order: one level where
   * `recursive` is false, else every file at any depth. Directories appear as entries only in one-level
   * listings. A directory that does not exist is empty.
   */
  list(directory: Key | '', options: { recursive: boolean }): AsyncIterable<Entry>;

  /** The bytes under `key`, in order. Throws `storage_not_found` on the first step where there are none. */
  read(key: Key): AsyncIterable<Uint8Array>;

  /**
   * Stores `body` under `key` and returns the version stored.
   *
   * The body is stored whole and verified, or not at all: where it ends early, runs over, or has another
   * digest than the one expected, the call fails with `body_mismatch` and the key holds what it held before.
   * Exceptions to "held before": see `WriteMode`.
   */
  write(key: Key, body: Body, options: WriteOptions): Promise<Written>;

  /**
   * Moves files, one after another in the order given, each replacing what is under its new key (in one step
   * where `facts.rename` is `atomic`). The bytes of every `from` are on disk before the first name changes.
   * The names are on disk before a later rename or removal changes anything, and when `sync` returns: a disk
   * is slow to promise, so it is asked no more often than the order of things needs. Fails with
   * `storage_not_found` at the first `from` that is not there; the moves before it are done, it and those
   * after it are not. Storages whose `facts.rename` is `none` throw `storage_permanent`.
   */
  rename(moves: readonly Move[]): Promise<void>;

  /**
   * Returns when the names that `rename` changed are on disk too. Where the other side of a connection keeps
   * the bytes, that is its own care.
   */
  sync(): Promise<void>;

  /** Removes the file, and what an unfinished write of it left; where there is none, that is success. */
  remove(key: Key): Promise<void>;

  /**
   * Removes everything below `directory`, and it. Where `facts.rename` is not `none`, all of it vanishes from
   * its old keys in one step first, so that whoever still works in there fails instead of leaving things
   * behind. Where there is nothing, that is success.
   */
  removeTree(directory: Key): Promise<void>;

  /** Gives back connections and handles; a second call does nothing. */
  close(): Promise<void>;
}

/** What differs between backends, found out, never assumed from its name. */
export interface StorageFacts {
  /**
   * `atomic`: rename replaces in one step. `replace_in_steps`: old aside, new in, old away; a reader may for
   * a moment see nothing. `none`: an object store; whole objects are put in place.
   */
  rename: 'atomic' | 'replace_in_steps' | 'none';
  /**
   * Which conditions `write` honours. A question and not a value, because an object store finds out by
   * writing an object of its own, which it does when it is first asked; opened read-only it cannot, and
   * fails.
   */
  conditionalWrites: () => Promise<ConditionalWrites>;
  /** The directory of this machine that the root is; null where the bytes are elsewhere. */
  localRoot: string | null;
  /**
   * The server's clock less ours in milliseconds, as the answers of the opening told it; 0 for this machine,
   * null where nothing tells. A clock that is minutes off makes S3 refuse signatures.
   */
  clockOffsetMs: number | null;
}

/**
 * `full`: `create` and `ifVersion`. `create`: only that. `none`: neither; who writes on a condition all the
 * same is refused with `storage_permanent`.
 */
export type ConditionalWrites = 'full' | 'create' | 'none';

export interface FileStat {
  type: EntryType;
  /** Bytes; 0 where the type is not `file`. */
  size: number;
  /** Identifies the content for `WriteOptions.ifVersion`; null where the backend has none. */
  version: string | null;
  /**
   * By the clock of whoever holds the bytes; null where the backend does not tell. For people and probes:
   * nothing is decided by it.
   */
  modifiedAt: Date | null;
}

export type EntryType = 'file' | 'directory' | 'link' | 'other';

export interface Entry {
  key: Key;
  type: EntryType;
  /** Bytes; 0 where the type is not `file`. */
  size: number;
}

export interface Move {
  from: Key;
  to: Key;
}

/** Bytes that can be read again from the start, so that a retry is just another `open()`. */
export interface Body {
  readonly size: number;
  open(): AsyncIterable<Uint8Array>;
  /**
   * Where the bytes are a file of this machine, its path: a local storage then copies from file to file,
   * without passing each chunk through an iterator. Optional because it is an accelerator, never a different
   * meaning.
   */
  readonly localPath?: string | undefined;
}

/**
 * `replace`: in place of whatever is there, in one step. `create`: only where nothing is, else
 * `storage_exists`; of any number of contenders exactly one succeeds, and nobody ever sees it half written;
 * it is for locks, which tell the living from each other, so that a machine that loses its power may lose it.
 * `scratch`: for names that nobody else reads and that a rename follows; it may leave partial bytes under the
 * key when it fails.
 */
export type WriteMode = 'replace' | 'create' | 'scratch';

export interface WriteOptions {
  mode: WriteMode;
  /** The digest the body must have. */
  digest?: Digest;
  /**
   * Only where the stored version is this one, else `storage_conflict`. Needs `conditionalWrites` to be
   * `full`.
   */
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
