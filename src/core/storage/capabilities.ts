import type { Key } from './key.ts';

/*
 * The optional capabilities of storages. A storage has all members of a capability or none. Callers look
 * for the member (`storage.duplicate?.(…)`), or use a guard such as `canRename` and pass the narrower type
 * on. A call without the check does not compile.
 */

/** File systems: names can change. Object stores lack this and write objects in place as a whole. */
export interface Renames {
  /**
   * `atomic`: a rename replaces its target in one step. `replace_in_steps`: the old file is moved aside, the
   * new one moved in and the old one removed, so a reader may briefly find nothing.
   */
  readonly renameKind: 'atomic' | 'replace_in_steps';
  /** Whether `rename` moves directories. */
  readonly movesDirectories: boolean;

  /**
   * Moves files in the given order. Each replaces the file at its new key (in one step if `renameKind` is
   * `atomic`), or an empty directory. With `isDirectory`, a directory moves with all its entries, in one
   * step if its new key is free; otherwise its entries move one by one.
   *
   * The content of every `from` is durable before the first name changes. The changed names are durable
   * before a later rename or removal changes anything, and once `sync` returns. Removals are durable before a
   * later rename. They are not flushed more often, because flushing is slow.
   *
   * Throws `storage_not_found` at the first `from` that does not exist: the moves before it have been made,
   * the others have not.
   */
  rename: (moves: readonly Move[]) => Promise<void>;

  /**
   * Makes the changes of names by `rename`, `putBack` and `remove` durable. Does nothing for remote storages,
   * whose servers are responsible for that themselves.
   */
  sync: () => Promise<void>;
}

export interface Move {
  from: Key;
  to: Key;
  /** `from` is a directory of files that were written as `scratch`. Needs `movesDirectories`. */
  isDirectory?: true;
  /**
   * The new key of the replaced file, if it was kept by `move`. Readers may briefly find nothing at `to`.
   * An existing file at `aside` is kept.
   */
  aside?: Key;
}

/** File systems with symbolic links. */
export interface Links {
  /** The target of the symbolic link at `key`, exactly as stored; null if there is no link. */
  readLink: (key: Key) => Promise<string | null>;
}

/**
 * File systems that replace a symbolic link in one step. Object stores have no links: a pointer is an object
 * there, written on the condition of its version.
 */
export interface ReplaceableLinks extends Links {
  /**
   * Makes `key` a symbolic link to `target`, a path relative to the directory of the link, which need not
   * exist. Replaces an existing link in one step: readers see the old target or the new one. Durable once
   * it returns. Throws `storage_exists` if `key` is not a link. `remove` removes a link and keeps its
   * target.
   */
  replaceLink: (key: Key, target: Key) => Promise<void>;
}

/** Replaced and removed files can be put back. Without this, the next run finishes a failed publication. */
export interface Backups {
  /** Larger files, in bytes, are not kept; null if there is no such limit. */
  readonly largestKeptBytes: number | null;

  /**
   * Makes sure that the file at `key` can be put back after it was replaced or removed, and returns how.
   * Does not change the file. null if the key is free or a directory. `aside` is a free key
   * in the staging directory of the attempt, and the sweep of that directory removes it.
   *
   * Nothing of this is made durable: it serves an attempt that fails, not one that is killed.
   */
  keep: (key: Key, aside: Key) => Promise<Kept | null>;

  /**
   * Puts a kept file back at its key, with its headers, and replaces the current file. Succeeds if the file
   * was never changed, or was put back already. Throws `storage_not_found` if neither the file nor its kept
   * copy exists, and `storage_permanent` if it was not kept at all.
   */
  putBack: (kept: Kept) => Promise<void>;
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

/** The storage makes copies by itself. */
export interface Duplicates {
  /**
   * Duplicates the file at `from` to `to`, with its bytes and headers, without a transfer through this
   * machine. Replaces an existing file. The result may be a second name of the same file, because files are
   * replaced and never changed. Returns the method. null if `from` does not exist, users other than its
   * owner may change it, or the server refuses; `to` is then free.
   */
  duplicate: (from: Key, to: Key) => Promise<'link' | 'copy' | null>;
}

/** Files and directories have modes. */
export interface Modes {
  /**
   * Gives those of these files and directories that exist the modes of the storage; a dry run only counts
   * them.
   */
  fixModes: (managed: ManagedEntries, options: { dryRun: boolean }) => Promise<FixedModes>;
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

/** The files are on this machine. */
export interface LocalAccess {
  readonly localFiles: LocalFiles;
}

/** Calls are synchronous. */
export interface LocalFiles {
  /** In bytes; undefined if there is no such file. Throws system errors. */
  sizeOf(key: Key): number | undefined;
}

/** The server can copy an object from another storage of the same server. */
export interface CopySource {
  /** Locates the object of a key on its server. */
  placeOf: (key: Key) => ObjectPlace;
}

/** An object of a server. */
export interface ObjectPlace {
  /** Equal for all buckets of one server. */
  server: string;
  bucket: string;
  /** Without the prefix of any storage. */
  key: string;
}

/** All capabilities. */
export interface Capabilities
  extends Renames, ReplaceableLinks, Backups, Duplicates, Modes, LocalAccess, CopySource {}
