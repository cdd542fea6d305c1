import type { Digest } from '../lib/digest.ts';
import type { WaybillError } from '../lib/errors.ts';
import type { Backups, Capabilities, ObjectPlace, Renames, ReplaceableLinks } from './capabilities.ts';
import type { Key } from './key.ts';
import type { ListingLimit } from './untrusted.ts';

/**
 * A place that stores bytes under keys.
 *
 * A storage is opened at a root and cannot access anything outside of it. Keys are relative paths (see
 * `Key`). Directories only exist because of the files in them. Writing a file creates its directory if
 * necessary. Deleting the last file in a directory deletes the directory, and its parents if they are empty,
 * but never the root.
 *
 * Every storage has to pass the tests in `test/contract/storage.ts`, which check everything that is described
 * here. Errors are `WaybillError`s with the code `body_mismatch` or one that starts with `storage_`.
 * `storage_transient` means that it is safe to repeat the call, and that this may help. If something fails or
 * times out, it must never look like a success.
 *
 * The members below are mandatory, and those in `capabilities.ts` are optional. Opening a storage probes its
 * capabilities and leaves out the members that it does not support.
 */
export interface Storage extends Partial<Capabilities> {
  /**
   * The name of the storage in messages. Messages may leave this machine, so there are no secrets and no
   * local paths in it.
   */
  readonly label: string;
  readonly facts: StorageFacts;

  /**
   * Returns what is known about the entry at `key`, or undefined if there is none. Symbolic links are not
   * followed. In an object store, there are only files.
   */
  stat(key: Key): Promise<FileStat | undefined>;

  /**
   * Lists the entries in `directory`, where '' is the root, in any order. With `recursive`, that is all files
   * below it. Otherwise, it is the files and directories directly in it. If the directory does not exist, the
   * listing is empty. Entries whose names cannot be part of a relative path are passed to `onUnreadable`
   * instead. With `stamps`, every file comes with its stamp.
   */
  list(directory: Key | '', options: ListOptions): AsyncIterable<Entry>;

  /**
   * Reads the bytes at `key`. If there is no such file, throws `storage_not_found` before the first chunk. In
   * a local storage, throws `body_mismatch` if the file is not the one that was listed as `expected`.
   */
  read(key: Key, expected?: FileIdentity): AsyncIterable<Uint8Array>;

  /**
   * Stores `body` at `key`, and returns its size, digest, and version.
   *
   * Either the whole body is stored, or nothing is. If the body is shorter or longer than its `size`, or if
   * it does not have the expected digest, throws `body_mismatch`, and what was there before stays there. For
   * exceptions, see `WriteMode`. Throws `storage_exists` if `mode` is `create` and there already is something
   * at `key`, and `storage_conflict` if the version is not `ifVersion`.
   */
  write(key: Key, body: Body, options: WriteOptions): Promise<Written>;

  /**
   * Checks in advance whether files can be written or deleted. Possible obstacles are a file or link in the
   * place of a directory, a different file system, missing permissions, a name that is too long, or too
   * little disk space. Returns the error that the change would fail with. It says which part of the path is
   * the problem, and what to do about it. Returns null if nothing was found, but that does not guarantee
   * success. Never writes anything. If the check itself fails, throws the error of the storage.
   */
  obstacleTo(change: Change): Promise<WaybillError | null>;

  /**
   * Deletes the file, and anything left over from an unfinished write to it. Succeeds if the file does not
   * exist. Throws `storage_conflict` if the version is not `ifVersion`, provided that the storage is able to
   * check this. Many are not, so callers still need to do their own check.
   */
  remove(key: Key, options?: RemoveOptions): Promise<void>;

  /**
   * Deletes `directory` and everything in it. If the storage supports renaming, the directory first
   * disappears from its old key in a single step. If another process is still writing to it, that process
   * then fails, rather than leaving files behind. Succeeds if the directory does not exist.
   */
  removeTree(directory: Key): Promise<void>;

  /** Closes connections and file handles. Can be called more than once. */
  close(): Promise<void>;
}

/** The ways in which storages differ, determined by probing rather than by their backends. */
export interface StorageFacts {
  /**
   * Returns which conditions `write` supports. For an object store, the first call has to write a probe
   * object to find out. Throws `storage_denied` if that is necessary but the storage was opened read-only.
   */
  conditionalWrites: () => Promise<ConditionalWrites>;
  /**
   * Whether the headers in `WriteOptions` are stored along with the bytes, in which case a file has to be
   * written again to change them.
   */
  keepsHeaders: boolean;
  /**
   * The offset of the server's clock from the local clock in milliseconds, as measured when the storage was
   * opened. It is positive if the server is ahead, 0 for this machine, and null if unknown. If the clocks
   * differ by more than 15 minutes, S3 rejects signatures.
   */
  clockOffsetMs: number | null;
}

export type RenamingStorage = Storage & Renames;
/** A storage that can put files back after they were replaced. */
type KeepingStorage = Storage & Backups;
/** A storage that can replace symbolic links in a single step. */
type LinkingStorage = Storage & ReplaceableLinks;

export function canRename(storage: Storage): storage is RenamingStorage {
  return storage.rename !== undefined;
}

export function canKeep(storage: Storage): storage is KeepingStorage {
  return storage.backUp !== undefined;
}

export function canReplaceLinks(storage: Storage): storage is LinkingStorage {
  return storage.replaceLink !== undefined;
}

/** Identifies a local file, so that we notice if its name later refers to a different one. */
export interface FileIdentity {
  device: number;
  inode: number;
}

/**
 * The conditions that a storage supports for writes: both `create` and `ifVersion` (`full`), only `create`,
 * or neither (`none`). A write with an unsupported condition throws `storage_permanent`.
 */
export type ConditionalWrites = 'full' | 'create' | 'none';

export interface FileStat {
  type: EntryType;
  /** The size in bytes. It is 0 unless the type is `file`. */
  size: number;
  /**
   * The version of the content, to be used for `WriteOptions.ifVersion`. null if the backend does not have
   * versions.
   */
  version: string | null;
  /**
   * The time of the last modification, according to the clock of the machine that stores the file. null if
   * the backend does not report it. Only used for display and to find abandoned probes, and never to make
   * decisions about published content.
   */
  modifiedAt: Date | null;
}

export type EntryType = 'file' | 'directory' | 'link' | 'other';

export interface ListOptions {
  recursive: boolean;
  onUnreadable?: (unreadable: UnreadableName) => void;
  stamps?: boolean;
  /** Shared by all calls that are part of one listing. By default, each call has its own. */
  limit?: ListingLimit;
}

export interface Entry {
  key: Key;
  type: EntryType;
  /** The size in bytes. It is 0 unless the type is `file`. */
  size: number;
  /** Only set for local files. */
  identity?: FileIdentity;
  /** Only set for files, and if the listing was asked for stamps. */
  stamp?: Stamp;
  /** If this is a link that was followed, its target. */
  linkTarget?: string;
  /**
   * Explains why a link was not followed, in a storage that follows links. It completes the sentence "`PATH`
   * …".
   */
  unfollowed?: string;
}

/** The state of a file according to a listing. It is used to notice changes without reading the file. */
export interface Stamp {
  /**
   * If the ids are equal, so are the bytes, unless the file was changed again within two seconds of
   * `modifiedAt`.
   */
  id: string;
  modifiedAt: Date;
  /** Whether equal ids mean equal bytes even then. */
  isExact: boolean;
}

/** An entry whose name cannot be part of a relative path. */
export interface UnreadableName {
  /** `no_path` means that there is an empty, `.`, or `..` segment in an object key. */
  reason: 'not_utf8' | 'no_path';
  directory: Key | '';
  /**
   * The rest of its key, once with U+FFFD in place of bytes that are not valid UTF-8, and once escaped by
   * `escapedName`.
   */
  decoded: string;
  escaped: string;
  type: EntryType;
}

/** A change to a storage, before it is made. */
export interface Change {
  /** The keys of the files to be written. */
  writes: readonly Key[];
  /** The keys of the files to be deleted, if they exist. */
  removes: readonly Key[];
  /** The directory in which new files are staged. It does not have to exist. */
  from: Key | '';
  /** The number of bytes to be written. If null, the free space is not checked. */
  bytes: number | null;
}

/** Bytes that can be read more than once. To retry, just call `open()` again. */
export interface Body {
  /** The size in bytes. */
  readonly size: number;
  open(): AsyncIterable<Uint8Array>;
  /**
   * Locates these bytes on a server. Another storage on the same server may then copy them instead of reading
   * this body, provided that the object was stored with the digest that the write expects. Called again right
   * before the copy request is sent, and may throw at that point to stop it.
   */
  readonly origin?: (() => ObjectPlace) | undefined;
}

/**
 * How to write a file:
 *
 * - `replace`: replaces the current content in a single step.
 * - `create`: only succeeds if the key is free, and otherwise throws `storage_exists`. If there are several
 *   writers at once, exactly one of them succeeds, and readers never see a partial file. This is meant for
 *   locks. On a local disk, the content is synced. If the power fails, the file may be missing, but it is
 *   never empty.
 * - `scratch`: for keys that nothing else reads, which are renamed afterwards. If the write fails, part of
 *   the bytes may be left there.
 */
type WriteMode = 'replace' | 'create' | 'scratch';

export interface WriteOptions {
  mode: WriteMode;
  /** The digest that the body must have. */
  digest?: Digest;
  /** The name of the body in a `body_mismatch`. Default: the key, which users do not know if it is staged. */
  outputName?: string;
  /**
   * Only writes if this is the version that is currently stored, and otherwise throws `storage_conflict`.
   * Requires `conditionalWrites` to be `full`.
   */
  ifVersion?: string;
  /** Headers for object stores to store with the bytes. File systems ignore them. */
  headers?: ObjectHeaders;
  /** Whether `max_rate` applies to this write: true for outputs, false for locks and catalogs. */
  isContent?: boolean;
  signal?: AbortSignal;
  /** Called with the size of each chunk read from the body, in bytes. */
  onBytes?: (count: number) => void;
}

export interface RemoveOptions {
  /** Only deletes the file if it has this version. */
  ifVersion?: string;
}

export interface ObjectHeaders {
  contentType?: string;
  cacheControl?: string;
}

export interface Written {
  /** The size in bytes. */
  size: number;
  digest: Digest;
  /** The version that was stored, or null if the backend does not have versions. */
  version: string | null;
}
