import type { Key } from './key.ts';

/*
 * What a storage may be able to do beyond the basics. A storage implements either all members of a capability
 * or none of them. Before using a capability, callers have to check for the member (`storage.duplicate?.(…)`)
 * or call a guard such as `canRename`, which narrows the type. Without a check, the call does not compile.
 */

/**
 * For file systems, where files can be renamed. Object stores cannot do that, and write each object in a
 * single step instead.
 */
export interface Renames {
  /**
   * `atomic`: renaming replaces the target in a single step. `replace_in_steps`: the old file is moved out of
   * the way, the new one is moved in, and the old one is deleted. In between, readers may find no file at
   * all.
   */
  readonly renameKind: 'atomic' | 'replace_in_steps';
  /** Whether `rename` can also move directories. */
  readonly movesDirectories: boolean;

  /**
   * Moves files, in the given order. Each of them replaces the file or empty directory at its new key. If
   * `renameKind` is `atomic`, this happens in a single step. With `isDirectory`, moves a directory with
   * everything in it: in a single step if the new key is free, and otherwise entry by entry.
   *
   * Before the first name changes, the content of every `from` has been flushed to disk. Changed names are
   * flushed before a later rename or removal takes effect, and when `sync` returns. Removals are flushed
   * before a later rename. Flushing is slow, so it does not happen more often than that.
   *
   * If a `from` does not exist, throws `storage_not_found`. In this case, the moves before it have been made,
   * and the ones after it have not.
   */
  rename: (moves: readonly Move[]) => Promise<void>;

  /**
   * Flushes name changes made by `rename`, `restore`, and `remove` to disk. Remote storages do nothing here,
   * since that is up to their servers.
   */
  sync: () => Promise<void>;
}

export interface Move {
  from: Key;
  to: Key;
  /**
   * Set if `from` is a directory whose files were written with the mode `scratch`. Requires
   * `movesDirectories`.
   */
  isDirectory?: true;
  /**
   * The key to move the replaced file to, if its backup method is `move`. For a moment, readers may find
   * nothing at `to`. An existing file at `aside` is not replaced.
   */
  aside?: Key;
}

/** For file systems that support symbolic links. */
export interface Links {
  /**
   * Returns the target of the symbolic link at `key`, exactly as it is stored. Returns null if there is no
   * link.
   */
  readLink: (key: Key) => Promise<string | null>;
}

/**
 * For file systems that can replace a symbolic link in a single step. Object stores do not have links. They
 * use a pointer object, which is only overwritten if its version is the expected one.
 */
export interface ReplaceableLinks extends Links {
  /**
   * Makes `key` a symbolic link to `target`. The target is a path relative to the link's directory, and
   * does not have to exist. An existing link is replaced in a single step, so readers see either the old
   * target or the new one. The link has been flushed to disk when this returns. Throws `storage_exists` if
   * there is something other than a link at `key`. To delete the link but not its target, use `remove`.
   */
  replaceLink: (key: Key, target: Key) => Promise<void>;
}

/**
 * For storages where a publication that fails can be undone, because replaced and deleted files can be put
 * back. Without this, the next run has to complete the publication.
 */
export interface Backups {
  /** Files that are larger than this many bytes cannot be put back. null means that there is no limit. */
  readonly maxBackupBytes: number | null;

  /**
   * Makes sure that the file at `key` can be put back after it has been replaced or deleted, and returns how.
   * The file itself is not changed. Returns null if there is nothing at `key`, or if it is a directory.
   * `aside` must be an unused key in the staging directory, where it is deleted together with everything
   * else.
   *
   * None of this is flushed to disk. It is meant for attempts that fail, not for those that get killed.
   */
  backUp: (key: Key, aside: Key) => Promise<BackupFile | null>;

  /**
   * Puts a file back at its key, along with its headers, and replaces whatever is there now. If the file was
   * never changed or is already back, that is fine, too. Throws `storage_not_found` if neither the file nor
   * its copy exists anymore, and `storage_permanent` if it could not be kept in the first place.
   */
  restore: (backup: BackupFile) => Promise<void>;
}

/** A file that can be put back. */
export interface BackupFile {
  key: Key;
  aside: Key;
  method: BackupMethod;
  /** The version of this content, as assigned by the storage. null unless `method` is `version`. */
  version: string | null;
}

/**
 * How a file can be put back:
 *
 * - `link`: `aside` is a hard link to the file. Putting it back restores the same file, even its timestamps.
 * - `copy`: `aside` is a copy of the file, including its headers or its modification time.
 * - `version`: the storage keeps old content on its own, even if it is replaced or deleted.
 * - `move`: nothing has been done yet. To replace the file, the caller must pass `aside` to `rename`. To
 *   delete it, the caller must rename it to `aside`.
 * - `nothing`: it cannot be put back, because it is too large to copy or the server is not able to copy it.
 */
export type BackupMethod = 'link' | 'copy' | 'version' | 'move' | 'nothing';

/** For storages that can copy files on their own. */
export interface Duplicates {
  /**
   * Copies the file at `from` to `to`, with its bytes and headers, without transferring it through this
   * machine. An existing file at `to` is replaced. The result may be a hard link, since files are only ever
   * replaced and never modified. Returns how the copy was made. Returns null if `from` does not exist, if
   * users other than its owner may change it, or if the server refuses. In that case, there is nothing at
   * `to`.
   */
  duplicate: (from: Key, to: Key) => Promise<'link' | 'copy' | null>;
}

/** For storages whose files and directories have modes (permissions). */
export interface Modes {
  /**
   * Sets the configured modes on the given files and directories, if they exist. With `dryRun`, only counts
   * how many would be changed.
   */
  fixModes: (managed: ManagedEntries, options: { dryRun: boolean }) => Promise<FixedModes>;
}

/**
 * The published directories, and the published files with their sizes in bytes. If a file has a different
 * size, it is left alone.
 */
export interface ManagedEntries {
  files: ReadonlyMap<Key, number>;
  directories: readonly Key[];
}

/** The number of entries with the wrong mode. */
export interface FixedModes {
  fixed: number;
  /** The entries that could not be changed, because of their owner, the file system, or the server. */
  refused: number;
}

/** For storages that are on this machine. */
interface LocalAccess {
  readonly localFiles: LocalFiles;
}

/** Gives direct access to files, using synchronous calls. */
export interface LocalFiles {
  /** Returns the size in bytes, or undefined if the file does not exist. Throws system errors. */
  sizeOf(key: Key): number | undefined;
}

/** For storages that can copy objects from another storage on the same server. */
export interface CopySource {
  /** Returns where on its server the object with this key is. */
  placeOf: (key: Key) => ObjectPlace;
}

/** The location of an object on its server. */
export interface ObjectPlace {
  /** The same for all buckets on a server. */
  server: string;
  bucket: string;
  /** The full key of the object, including the prefix of the storage. */
  key: string;
}

/** Everything that a storage may be able to do. */
export interface Capabilities
  extends Renames, ReplaceableLinks, Backups, Duplicates, Modes, LocalAccess, CopySource {}
