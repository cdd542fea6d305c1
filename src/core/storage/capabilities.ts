import type { Key } from './key.ts';

/*
 * Optional storage capabilities. A storage has either all members of a capability or none. Callers check for
 * the member (`storage.duplicate?.(…)`), or use a guard such as `canRename` and pass on the narrower type. An
 * unchecked call does not compile.
 */

/**
 * Implemented by file systems, where names can change. Object stores lack it and write each object whole, in
 * place.
 */
export interface Renames {
  /**
   * `atomic`: a rename replaces its target in one step. `replace_in_steps`: the old file is moved aside, the
   * new one is moved in, and the old one is removed. A reader may briefly find nothing.
   */
  readonly renameKind: 'atomic' | 'replace_in_steps';
  /** Whether `rename` can move directories. */
  readonly movesDirectories: boolean;

  /**
   * Moves files in the given order. Each move replaces the file (in one step if `renameKind` is `atomic`) or
   * the empty directory at its new key. With `isDirectory`, a directory moves with all its entries, in one
   * step if its new key is free. Otherwise, its entries move one by one.
   *
   * The content of every `from` is durable before the first name changes. Changed names are durable before a
   * later rename or removal takes effect, and once `sync` returns. Removals are durable before a later
   * rename. Nothing is flushed more often than that, because flushing is slow.
   *
   * Throws `storage_not_found` at the first `from` that does not exist. Earlier moves have
   * been made, and later ones have not.
   */
  rename: (moves: readonly Move[]) => Promise<void>;

  /**
   * Makes name changes by `rename`, `putBack` and `remove` durable. Does nothing for remote storages, whose
   * servers are responsible for durability.
   */
  sync: () => Promise<void>;
}

export interface Move {
  from: Key;
  to: Key;
  /** Set if `from` is a directory of files written with mode `scratch`. Requires `movesDirectories`. */
  isDirectory?: true;
  /**
   * The key to which the replaced file is moved, if it is kept by `move`. Readers may briefly find nothing at
   * `to`. An existing file at `aside` is kept.
   */
  aside?: Key;
}

/** Implemented by file systems that have symbolic links. */
export interface Links {
  /** Returns the target of the symbolic link at `key`, exactly as stored, or null if there is no link. */
  readLink: (key: Key) => Promise<string | null>;
}

/**
 * Implemented by file systems that replace a symbolic link in one step. Object stores have no links and use a
 * pointer object instead, written only if its version matches.
 */
export interface ReplaceableLinks extends Links {
  /**
   * Makes `key` a symbolic link to `target`, a path relative to the link's directory. The target need not
   * exist. Replaces an existing link in one step: readers see the old target or the new one. Durable once it
   * returns. Throws `storage_exists` if `key` is not a link. `remove` removes a link and keeps its target.
   */
  replaceLink: (key: Key, target: Key) => Promise<void>;
}

/**
 * Allows replaced and removed files to be put back. Without this capability, a failed publication is finished
 * by the next run.
 */
export interface Backups {
  /** Files above this size in bytes are not kept. If null, there is no limit. */
  readonly largestKeptBytes: number | null;

  /**
   * Ensures that the file at `key` can be put back after it is replaced or removed, and returns how. Does not
   * change the file. Returns null if the key is free or a directory. `aside` is a free key in the attempt's
   * staging directory, and is removed when that directory is swept.
   *
   * None of this is made durable, because it serves attempts that fail, not ones that are killed.
   */
  keep: (key: Key, aside: Key) => Promise<Kept | null>;

  /**
   * Puts a kept file back at its key, with its headers, replacing the current file. Succeeds if the file was
   * never changed or is already back. Throws `storage_not_found` if neither the file nor its kept copy
   * exists, and `storage_permanent` if the file was never kept.
   */
  putBack: (kept: Kept) => Promise<void>;
}

/** A file that can be put back. */
export interface Kept {
  key: Key;
  aside: Key;
  by: KeptBy;
  /** The storage's version of this content. It is null unless `by` is `version`. */
  version: string | null;
}

/**
 * - `link`: `aside` is a hard link to the file. Putting it back restores the same file, including its
 *   timestamps.
 * - `copy`: `aside` is a copy of the file, with its headers or its modification time.
 * - `version`: the storage itself keeps replaced and removed content.
 * - `move`: nothing has been done yet. To replace the file, the caller passes `aside` to `rename`. To remove
 *   it, the caller renames it to `aside`.
 * - `nothing`: the file cannot be put back, because it is too large to be copied or the server cannot copy.
 */
export type KeptBy = 'link' | 'copy' | 'version' | 'move' | 'nothing';

/** Implemented by storages that can make copies by themselves. */
export interface Duplicates {
  /**
   * Duplicates the file at `from` to `to`, with its bytes and headers, without transferring it through this
   * machine. Replaces an existing file. The result may be a hard link to the same file, because files are
   * replaced and never modified. Returns the method used. Returns null, leaving `to` free, if `from` does not
   * exist, if users other than its owner may change it, or if the server refuses.
   */
  duplicate: (from: Key, to: Key) => Promise<'link' | 'copy' | null>;
}

/** Implemented by storages whose files and directories have modes. */
export interface Modes {
  /**
   * Sets the storage's modes on those of the given files and directories that exist. A dry run only counts
   * them.
   */
  fixModes: (managed: ManagedEntries, options: { dryRun: boolean }) => Promise<FixedModes>;
}

/** Published files with their sizes in bytes, and directories. A file whose size differs is left alone. */
export interface ManagedEntries {
  files: ReadonlyMap<Key, number>;
  directories: readonly Key[];
}

/** The number of entries whose mode was wrong. */
export interface FixedModes {
  fixed: number;
  /** Entries left unchanged because of their owner, the file system or the server. */
  refused: number;
}

/** Implemented by storages whose files are on this machine. */
export interface LocalAccess {
  readonly localFiles: LocalFiles;
}

/** File access with synchronous calls. */
export interface LocalFiles {
  /** Returns the size in bytes, or undefined if there is no such file. Throws system errors. */
  sizeOf(key: Key): number | undefined;
}

/** Implemented by storages that can copy objects from another storage on the same server. */
export interface CopySource {
  /** Returns where a key's object is on its server. */
  placeOf: (key: Key) => ObjectPlace;
}

/** The place of an object on a server. */
export interface ObjectPlace {
  /** The same for all buckets of a server. */
  server: string;
  bucket: string;
  /** The full object key, including any prefix of the storage. */
  key: string;
}

/** All capabilities. */
export interface Capabilities
  extends Renames, ReplaceableLinks, Backups, Duplicates, Modes, LocalAccess, CopySource {}
