import type { Digest } from '../lib/digest.ts';
import type { WaybillError } from '../lib/errors.ts';
import type { Key } from './key.ts';

/**
 * The storage contract: what publishing needs from a place that holds bytes under keys.
 *
 * A storage is opened at a root and sees nothing outside it. Keys are relative paths (`Key`). Directories
 * exist only because keys imply them: writing creates the missing ones, and removing the last file of a
 * directory removes the directory and its empty parents, up to but not including the root.
 *
 * Every implementation passes the suite in `test/contract/storage.ts`, which is this page in executable form.
 * Failures are `WaybillError`s with a `storage_*` code or `body_mismatch`. `storage_transient` promises that
 * repeating the call is safe and may help. A failure is never turned into a success, and a timeout is a
 * failure.
 */
export interface Storage {
  /**
   * The name used in messages. It holds no secrets and no paths of this machine, because messages travel
   * further than the machine.
   */
  readonly label: string;
  readonly facts: StorageFacts;

  /**
   * The metadata of the entry at `key`, or undefined if there is none. Symbolic links are not followed.
   * Object stores report files only.
   */
  stat(key: Key): Promise<FileStat | undefined>;

  /**
   * Lists the entries below `directory` ('' is the root), in no particular order: the files at any depth if
   * `recursive`, otherwise the entries of one level. Directories are listed only in the one-level form. A
   * directory that does not exist is empty. `onUnreadable` gets the entries that no relative path names. They
   * are then not listed. With `stamps` each file has its stamp.
   */
  list(directory: Key | '', options: ListOptions): AsyncIterable<Entry>;

  /**
   * Streams the bytes at `key` in order. Throws `storage_not_found` on the first step if there is no such
   * file. Throws `body_mismatch` if the storage is local and the file is not the `expected` one from the
   * listing.
   */
  read(key: Key, expected?: FileIdentity): AsyncIterable<Uint8Array>;

  /**
   * Stores `body` at `key` and returns its size, digest and version.
   *
   * The body is verified and stored whole, or not at all: if it is shorter or longer than its `size`, or does
   * not have the expected digest, the call throws `body_mismatch` and the key keeps its previous content. The
   * exceptions are listed at `WriteMode`. Throws `storage_exists` if `mode` is `create` and the key is taken,
   * and `storage_conflict` if `ifVersion` does not match.
   */
  write(key: Key, body: Body, options: WriteOptions): Promise<Written>;

  /**
   * Moves files in the given order. Each replaces the file at its new key (in one step if `facts.rename` is
   * `atomic`), or an empty directory. With `isDirectory`, a directory moves with all its entries, in one
   * step if its new key is free; otherwise its entries move one by one.
   *
   * The content of every `from` is durable before the first name changes. The changed names are durable
   * before a later rename or removal changes anything, and once `sync` returns. They are not flushed more
   * often, because flushing is slow.
   *
   * Throws `storage_not_found` at the first `from` that does not exist: the moves before it have been made,
   * the others have not. Throws `storage_permanent` if `facts.rename` is `none`.
   */
  rename(moves: readonly Move[]): Promise<void>;

  /**
   * Looks for obstacles to writing or removing files: a file or a link where a directory is needed, another
   * file system, missing rights, a name that is too long, too little space. Returns the error that the
   * change would end with, which names the first component at fault and the next step. null if no obstacle
   * was found, which is not a guarantee. Never writes. Throws the storage's error if it cannot look.
   */
  obstacleTo(change: Change): Promise<WaybillError | null>;

  /**
   * Makes sure that the file at `key` can be put back after it was replaced or removed, and returns how.
   * Does not change the file. null if the key is free or a directory. `aside` is a free key
   * in the staging directory of the attempt, and the sweep of that directory removes it.
   *
   * Nothing of this is made durable: it serves an attempt that fails, not one that is killed.
   */
  keep(key: Key, aside: Key): Promise<Kept | null>;

  /**
   * Puts a kept file back at its key, with its headers, and replaces the current file. Succeeds if the file
   * was never changed, or was put back already. Throws `storage_not_found` if neither the file nor its kept
   * copy exists, and `storage_permanent` if it was not kept at all.
   */
  putBack(kept: Kept): Promise<void>;

  /**
   * Duplicates the file at `from` to `to`, with its bytes and headers, without a transfer through this
   * machine. Replaces an existing file. The result may be a second name of the same file, because files are
   * replaced and never changed. Returns the method. null if `from` does not exist, users other than its
   * owner may change it, or the storage does not support it; `to` is then free.
   */
  duplicate(from: Key, to: Key): Promise<'link' | 'copy' | null>;

  /** The target of the symbolic link at `key`, exactly as stored; null if there is no link. */
  readLink(key: Key): Promise<string | null>;

  /**
   * Makes `key` a symbolic link to `target`, a path relative to the directory of the link, which need not
   * exist. Replaces an existing link in one step: readers see the old target or the new one. Durable once
   * it returns. Throws `storage_exists` if `key` is not a link, and `storage_permanent` unless
   * `facts.replacesLinks`. `remove` removes a link and keeps its target.
   */
  replaceLink(key: Key, target: Key): Promise<void>;

  /**
   * Makes the names that `rename` and `putBack` changed durable. Does nothing for remote storages, whose
   * servers are responsible for that themselves.
   */
  sync(): Promise<void>;

  /**
   * Removes the file and the remains of an unfinished write of it. Succeeds if there is no such file.
   * Throws `storage_conflict` if `ifVersion` does not match and the storage supports that. Many do not, so
   * this only supplements the caller's own check and never replaces it.
   */
  remove(key: Key, options?: RemoveOptions): Promise<void>;

  /**
   * Removes `directory` and everything below it. Unless `facts.rename` is `none`, the whole tree first
   * vanishes from its old keys in one step, so that another process still writing there fails instead of
   * leaving files behind. Succeeds if there is no such directory.
   */
  removeTree(directory: Key): Promise<void>;

  /** Releases connections and handles. A second call does nothing. */
  close(): Promise<void>;
}

/** The differences between storages, determined by probing the storage and not from its backend. */
export interface StorageFacts {
  /**
   * `atomic`: a rename replaces its target in one step. `replace_in_steps`: the old file is moved aside, the
   * new one moved in and the old one removed, so a reader may briefly find nothing. `none`: objects cannot be
   * renamed and are written in place as a whole.
   */
  rename: 'atomic' | 'replace_in_steps' | 'none';
  /** Whether `rename` moves directories. */
  movesDirectories: boolean;
  /**
   * The conditions that `write` supports. This is a function because an object store can only find out by
   * writing a probe object, which it does on the first call. Throws `storage_denied` if that is necessary
   * and the storage was opened read-only.
   */
  conditionalWrites: () => Promise<ConditionalWrites>;
  /** Whether the headers of `WriteOptions` are kept with the bytes, so that a change in them is a write. */
  keepsHeaders: boolean;
  /**
   * Whether the storage has symbolic links and can replace one in one step. Object stores have none: a
   * pointer is an object there, written on the condition of its version.
   */
  replacesLinks: boolean;
  /** Larger files, in bytes, are not kept by `keep`; null if there is no such limit. */
  largestKeptBytes: number | null;
  /**
   * Gives those of these files and directories that exist the modes of the storage; a dry run only counts
   * them. Absent if the storage has no modes.
   */
  fixModes?: (managed: ManagedEntries, options: { dryRun: boolean }) => Promise<FixedModes>;
  /** The files, if they are on this machine; null if the bytes are stored elsewhere. */
  localFiles: LocalFiles | null;
  /** Locates the object of a key on its server. Absent if the storage cannot copy from another one. */
  placeOf?: (key: Key) => ObjectPlace;
  /**
   * The server's clock minus ours, in milliseconds, as observed while opening: 0 for this machine, null if
   * unknown. S3 refuses signatures if the clocks differ by more than 15 minutes.
   */
  clockOffsetMs: number | null;
}

/** Published files with their sizes in bytes, and directories. A file of another size is left alone. */
export interface ManagedEntries {
  files: ReadonlyMap<Key, number>;
  directories: readonly Key[];
}

/** The number of entries that had another mode. */
export interface FixedModes {
  fixed: number;
  /** Not changed, because of their owner, the file system or the server. */
  refused: number;
}

/** Files of this machine. Calls are synchronous. */
export interface LocalFiles {
  /** In bytes; undefined if there is no such file. Throws system errors. */
  sizeOf(key: Key): number | undefined;
}

/** Which file of this machine a name stood for when it was listed. */
export interface FileIdentity {
  device: number;
  inode: number;
}

/**
 * `full`: both `create` and `ifVersion`. `create`: only `create`. `none`: neither. A write with an
 * unsupported condition throws `storage_permanent`.
 */
export type ConditionalWrites = 'full' | 'create' | 'none';

export interface FileStat {
  type: EntryType;
  /** In bytes; 0 unless the type is `file`. */
  size: number;
  /** Identifies the content for `WriteOptions.ifVersion`; null if the backend has no versions. */
  version: string | null;
  /**
   * By the clock of the machine that stores the file; null if the backend does not report it. For display
   * and for finding abandoned probes, but never the basis of a decision about published content.
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
  /** In bytes; 0 unless the type is `file`. */
  size: number;
  /** Files of this machine have one. */
  identity?: FileIdentity;
  /** Set for files if the listing was requested with stamps. */
  stamp?: Stamp;
  /** The target of the followed link that this entry was listed as. */
  leadsTo?: string;
  /** Why a link was not followed, as the predicate of a sentence, if links are followed. */
  unfollowed?: string;
}

/** The state of a file as a listing shows it, by which a change is noticed without reading the file. */
export interface Stamp {
  /** Equal ids mean equal bytes, unless the file changed again within two seconds of `modifiedAt`. */
  id: string;
  modifiedAt: Date;
  /** Whether equal ids always mean equal bytes. */
  isExact: boolean;
}

/** An entry that no relative path names. */
export interface UnreadableName {
  /** `no_path`: the key of an object has an empty, `.` or `..` segment. */
  reason: 'not_utf8' | 'no_path';
  directory: Key | '';
  /** The rest of its key, with U+FFFD for bytes that are not UTF-8; and as `escapedName` returns it. */
  decoded: string;
  escaped: string;
  type: EntryType;
}

export interface Move {
  from: Key;
  to: Key;
  /** `from` is a directory of files that were written as `scratch`. Needs `facts.movesDirectories`. */
  isDirectory?: true;
  /**
   * The new key of the replaced file, if it was kept by `move`. Readers may briefly find nothing at `to`.
   * An existing file at `aside` is kept.
   */
  aside?: Key;
}

/** A change that is about to be made. */
export interface Change {
  /** Keys of the files to write. */
  writes: readonly Key[];
  /** Files to be removed, if they exist. */
  removes: readonly Key[];
  /** The directory below which the new files are staged; it need not exist. */
  from: Key | '';
  /** Number of bytes to write; null to skip the check of free space. */
  bytes: number | null;
}

/** A file that can be put back. */
export interface Kept {
  key: Key;
  aside: Key;
  by: KeptBy;
  /** The storage's version of this content; null unless it was kept by `version`. */
  version: string | null;
}

/**
 * - `link`: `aside` is a second name of the file. Putting it back restores the same file, with its times.
 * - `copy`: `aside` is a copy of the file, with its headers or its time of modification.
 * - `version`: the storage itself keeps replaced and removed content.
 * - `move`: nothing was done yet. A caller that replaces the file passes `aside` to `rename`; a caller that
 *   removes the file renames it to `aside`.
 * - `nothing`: the file cannot be put back, because it is too large to be copied or the server cannot copy.
 */
export type KeptBy = 'link' | 'copy' | 'version' | 'move' | 'nothing';

/** Bytes that can be read again from the start, so that a retry is just another `open()`. */
export interface Body {
  /** In bytes. */
  readonly size: number;
  open(): AsyncIterable<Uint8Array>;
  /**
   * Locates these bytes on a server. A storage of the same server may copy them there, without reading the
   * body, if the object was stored with the digest that the write expects. Called again right before the copy
   * is sent, and may then throw to prevent it.
   */
  readonly origin?: (() => ObjectPlace) | undefined;
}

/** An object of a server. */
export interface ObjectPlace {
  /** Equal for all buckets of one server. */
  server: string;
  bucket: string;
  /** Without the prefix of any storage. */
  key: string;
}

/**
 * - `replace`: replaces the content of the key in one step.
 * - `create`: succeeds only if the key is free, else throws `storage_exists`. Exactly one of several
 *   concurrent writers succeeds, and no reader sees a partial file. Meant for locks. Not fsynced, because a
 *   lock means nothing after a power loss.
 * - `scratch`: for keys without other readers that are renamed later. A failed write may leave partial
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
  /** Whether `max_rate` limits the write: true for outputs, and not for locks and catalogs. */
  isContent?: boolean;
  signal?: AbortSignal;
  /** Called with the size in bytes of each chunk taken from the body. */
  onBytes?: (count: number) => void;
}

export interface RemoveOptions {
  /** The version that is to be removed. */
  ifVersion?: string;
}

export interface ObjectHeaders {
  contentType?: string;
  cacheControl?: string;
}

export interface Written {
  /** In bytes. */
  size: number;
  digest: Digest;
  /** The version stored; null if the backend has no versions. */
  version: string | null;
}
