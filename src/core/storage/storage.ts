import type { Digest } from '../lib/digest.ts';
import type { WaybillError } from '../lib/errors.ts';
import type { Backups, Capabilities, ObjectPlace, Renames, ReplaceableLinks } from './capabilities.ts';
import type { Key } from './key.ts';

/**
 * The storage contract, which defines what publishing requires of a place that stores bytes under keys.
 *
 * A storage is opened at a root and sees nothing outside it. Keys are relative paths (`Key`). Directories
 * exist only because keys imply them: writing creates the missing ones, and removing the last file of a
 * directory removes the directory and its empty parents, up to but not including the root.
 *
 * Every implementation passes the suite in `test/contract/storage.ts`, which is this contract in executable
 * form. Failures are `WaybillError`s with a `storage_*` code or `body_mismatch`. `storage_transient` promises
 * that repeating the call is safe and may help. A failure is never turned into a success, and a timeout is a
 * failure.
 *
 * The members below are the core. `capabilities.ts` defines optional ones, which are absent if probing during
 * opening shows that the storage does not have the capability.
 */
export interface Storage extends Partial<Capabilities> {
  /**
   * The name used in messages. It contains no secrets and no local paths, because messages leave this
   * machine.
   */
  readonly label: string;
  readonly facts: StorageFacts;

  /**
   * Returns the metadata of the entry at `key`, or undefined if there is none. Symbolic links are not
   * followed. Object stores report only files.
   */
  stat(key: Key): Promise<FileStat | undefined>;

  /**
   * Lists the entries below `directory` ('' is the root), in no particular order: the files at any depth if
   * `recursive`, otherwise the entries of one level. Directories are listed only in the one-level form. A
   * directory that does not exist is treated as empty. Entries that no relative path can name are passed to
   * `onUnreadable` and not listed. With `stamps`, each file has its stamp.
   */
  list(directory: Key | '', options: ListOptions): AsyncIterable<Entry>;

  /**
   * Streams the bytes at `key` in order. Throws `storage_not_found` on the first step if there is no such
   * file. For local storages, throws `body_mismatch` if the file is not the `expected` one from the listing.
   */
  read(key: Key, expected?: FileIdentity): AsyncIterable<Uint8Array>;

  /**
   * Stores `body` at `key` and returns its size, digest and version.
   *
   * The body is verified and stored whole, or not at all: if it is shorter or longer than its `size`, or does
   * not have the expected digest, the call throws `body_mismatch` and the key keeps its previous content.
   * `WriteMode` lists the exceptions. Throws `storage_exists` if `mode` is `create` and the key is taken, and
   * `storage_conflict` if `ifVersion` does not match.
   */
  write(key: Key, body: Body, options: WriteOptions): Promise<Written>;

  /**
   * Looks for obstacles to writing or removing files: a file or a link where a directory is needed, another
   * file system, missing permissions, a name that is too long, or too little space. Returns the error with
   * which the change would fail, naming the first component at fault and the next step. Returns null if no
   * obstacle was found, which is not a guarantee. Never writes. Throws the storage's error if the check
   * itself fails.
   */
  obstacleTo(change: Change): Promise<WaybillError | null>;

  /**
   * Removes the file and the remains of any unfinished write to it. Succeeds if there is no such file. Throws
   * `storage_conflict` if `ifVersion` does not match and the storage supports the condition. Many do not, so
   * it only supplements the caller's own check and never replaces it.
   */
  remove(key: Key, options?: RemoveOptions): Promise<void>;

  /**
   * Removes `directory` and everything below it. If the storage can rename, the whole tree first
   * vanishes from its old keys in one step, so that another process still writing there fails instead of
   * leaving files behind. Succeeds if there is no such directory.
   */
  removeTree(directory: Key): Promise<void>;

  /** Releases connections and handles. Calling it again does nothing. */
  close(): Promise<void>;
}

/** Differences between storages, determined by probing the storage rather than by its backend. */
export interface StorageFacts {
  /**
   * The conditions that `write` supports. This is a function because an object store can only find out by
   * writing a probe object, which it does on the first call. Throws `storage_denied` if a probe is needed and
   * the storage was opened read-only.
   */
  conditionalWrites: () => Promise<ConditionalWrites>;
  /**
   * Whether the headers in `WriteOptions` are stored with the bytes, so that changing them requires a write.
   */
  keepsHeaders: boolean;
  /**
   * The server's clock minus the local clock in milliseconds, as observed while opening. It is 0 for this
   * machine and null if unknown. S3 refuses signatures if the clocks differ by more than 15 minutes.
   */
  clockOffsetMs: number | null;
}

/** A storage whose files can be renamed. */
export type RenamingStorage = Storage & Renames;
/** A storage that can put replaced files back. */
export type KeepingStorage = Storage & Backups;
/** A storage whose symbolic links can be replaced in one step. */
export type LinkingStorage = Storage & ReplaceableLinks;

export function canRename(storage: Storage): storage is RenamingStorage {
  return storage.rename !== undefined;
}

export function canKeep(storage: Storage): storage is KeepingStorage {
  return storage.keep !== undefined;
}

export function canReplaceLinks(storage: Storage): storage is LinkingStorage {
  return storage.replaceLink !== undefined;
}

/** Identifies the local file that a name referred to when it was listed. */
export interface FileIdentity {
  device: number;
  inode: number;
}

/**
 * `full` supports both `create` and `ifVersion`, `create` supports only `create`, and `none` supports
 * neither. A write with an unsupported condition throws `storage_permanent`.
 */
export type ConditionalWrites = 'full' | 'create' | 'none';

export interface FileStat {
  type: EntryType;
  /** The size in bytes. It is 0 unless the type is `file`. */
  size: number;
  /** The version of the content for `WriteOptions.ifVersion`, or null if the backend has no versions. */
  version: string | null;
  /**
   * The modification time by the clock of the machine that stores the file, or null if the backend does not
   * report it. It is used for display and to find abandoned probes, never for decisions about published
   * content.
   */
  modifiedAt: Date | null;
}

export type EntryType = 'file' | 'directory' | 'link' | 'other';

export interface ListOptions {
  recursive: boolean;
  onUnreadable?: (unreadable: UnreadableName) => void;
  stamps?: boolean;
}

export interface Entry {
  key: Key;
  type: EntryType;
  /** The size in bytes. It is 0 unless the type is `file`. */
  size: number;
  /** Set for local files. */
  identity?: FileIdentity;
  /** Set for files if the listing was requested with stamps. */
  stamp?: Stamp;
  /** If the entry is a followed link, the link's target. */
  linkTarget?: string;
  /** If links are followed, why this one was not, as the predicate of a sentence. */
  unfollowed?: string;
}

/** The state of a file as shown in a listing, used to detect changes without reading the file. */
export interface Stamp {
  /** Equal ids mean equal bytes, unless the file changed again within two seconds of `modifiedAt`. */
  id: string;
  modifiedAt: Date;
  /** Whether equal ids always mean equal bytes. */
  isExact: boolean;
}

/** An entry that no relative path can name. */
export interface UnreadableName {
  /** `no_path` means that an object key has an empty, `.` or `..` segment. */
  reason: 'not_utf8' | 'no_path';
  directory: Key | '';
  /**
   * The rest of its key, with U+FFFD for bytes that are not UTF-8, and the same text escaped by
   * `escapedName`.
   */
  decoded: string;
  escaped: string;
  type: EntryType;
}

/** A change that is about to be made. */
export interface Change {
  /** Keys of the files to write. */
  writes: readonly Key[];
  /** Keys of the files to remove, if they exist. */
  removes: readonly Key[];
  /** The directory in which the new files are staged. It need not exist. */
  from: Key | '';
  /** Number of bytes to write, or null to skip the check of free space. */
  bytes: number | null;
}

/** Bytes that can be reread from the start, so that a retry just calls `open()` again. */
export interface Body {
  /** The size in bytes. */
  readonly size: number;
  open(): AsyncIterable<Uint8Array>;
  /**
   * Locates these bytes on a server. A storage of the same server may copy them there, without reading the
   * body, if the object was stored with the digest that the write expects. Called again right before the copy
   * request is sent, when it may throw to prevent the copy.
   */
  readonly origin?: (() => ObjectPlace) | undefined;
}

/**
 * - `replace`: replaces the content of the key in one step.
 * - `create`: succeeds only if the key is free, else throws `storage_exists`. Exactly one of several
 *   concurrent writers succeeds, and no reader sees a partial file. Meant for locks. A local disk syncs the
 *   content: after a power loss the file may be missing, but it is never empty.
 * - `scratch`: for keys that have no other readers and are renamed later. A failed write may leave partial
 *   bytes at the key.
 */
export type WriteMode = 'replace' | 'create' | 'scratch';

export interface WriteOptions {
  mode: WriteMode;
  /** The digest that the body must have. */
  digest?: Digest;
  /**
   * Writes only if the stored version is this one, else throws `storage_conflict`. Requires
   * `conditionalWrites` to be `full`.
   */
  ifVersion?: string;
  /** Headers that an object store keeps with the bytes. File systems ignore them. */
  headers?: ObjectHeaders;
  /** Whether `max_rate` limits the write. True for outputs, false for locks and catalogs. */
  isContent?: boolean;
  signal?: AbortSignal;
  /** Called with the size in bytes of each chunk taken from the body. */
  onBytes?: (count: number) => void;
}

export interface RemoveOptions {
  /** Removes only this version. */
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
  /** The stored version, or null if the backend has no versions. */
  version: string | null;
}
