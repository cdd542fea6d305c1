import {
  closeSync,
  constants,
  fchmodSync,
  futimesSync,
  linkSync,
  lstatSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  type Stats,
  symlinkSync,
  unlinkSync,
} from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { errnoOf, isAbsent, undefinedIfAbsent } from '../../lib/system-errors.ts';
import type { BackupFile, BackupMethod, Move } from '../capabilities.ts';
import { joinKey, type Key, parentOf } from '../key.ts';
import type { Storage } from '../storage.ts';
import { localFailure, notFound } from '../storage-errors.ts';
import { entriesPerYield, removeIfEmpty } from './entries.ts';
import type { ImpliedDirectories } from './implied-directories.ts';
import { type DirectoryHandles, openPath } from './local-directories.ts';
import { createFile, openToRead } from './local-files.ts';
import type { UnsyncedNames } from './unsynced-names.ts';

/**
 * Renames files and directories, and keeps files that are about to be replaced. A file's content is always
 * flushed to disk before its name, and so are names on which a later change depends.
 */
export class LocalNames {
  readonly #storage: Pick<Storage, 'label'>;
  readonly #handles: DirectoryHandles;
  readonly #directories: ImpliedDirectories;
  readonly #unsynced: UnsyncedNames;
  /** Scratch files that have not been synced yet. */
  readonly #staged = new Set<Key>();
  /**
   * The status of each file that was copied, by the key of its copy. If the file has not been replaced,
   * there is no need to put it back.
   */
  readonly #copied = new Map<Key, Stats>();

  constructor(
    storage: Pick<Storage, 'label'>,
    handles: DirectoryHandles,
    directories: ImpliedDirectories,
    unsynced: UnsyncedNames,
  ) {
    this.#storage = storage;
    this.#handles = handles;
    this.#directories = directories;
    this.#unsynced = unsynced;
  }

  /** Records that a new scratch file has not been flushed to disk. That happens when it is renamed. */
  staged(key: Key): void {
    this.#staged.add(key);
  }

  /** Implements `Storage.rename`. Before a key is changed, calls `allow` with it. */
  async rename(moves: readonly Move[], allow: (key: Key) => void): Promise<void> {
    try {
      await this.#makeSourcesDurable(moves);
      await this.#unsynced.flushAll();
    } catch (error) {
      throw localFailure(this.#storage, moves[0]?.from ?? '', error);
    }
    let count = 0;
    for (const { from, to, aside, isDirectory } of moves) {
      allow(to);
      try {
        if (aside !== undefined) await this.#moveAside(to, aside);
        if (isDirectory === true) await this.#moveDirectory(from, to);
        else await this.#moveFile(from, to);
      } catch (error) {
        throw isAbsent(error) ? notFound(this.#storage, from, error) : localFailure(this.#storage, to, error);
      }
      count += 1;
      if (count % entriesPerYield === 0) await yieldToEventLoop();
    }
  }

  clear(): void {
    this.#staged.clear();
    this.#unsynced.clear();
  }

  /**
   * Implements `Storage.backUp` with a hard link. If that is not possible (because they are not supported,
   * the file belongs to another user, or it has too many links), the file is copied. Moving it aside would
   * leave readers without the file for a moment. A pipe cannot be copied, so it is moved.
   */
  async backUp(key: Key, aside: Key): Promise<BackupFile | null> {
    const method = await this.#backUpBy(key, aside);
    return method === null ? null : { key, aside, method, version: null };
  }

  /** Implements `Storage.restore`. Throws system errors, as reported by Node.js. */
  async restore({ key, aside, method }: BackupFile): Promise<void> {
    const present = this.#lstatIfThere(key);
    const original = this.#copied.get(aside);
    const isUntouched = isSame(present, original) && present?.ctimeMs === original?.ctimeMs;
    if (isUntouched || isSame(present, this.#lstatIfThere(aside)))
      return undefinedIfAbsent(() => unlinkSync(this.#at(aside)));
    try {
      if (method === 'copy' && this.#lstatIfThere(aside)?.isFile() === true)
        await this.#handles.makeDurable([aside]);
      await this.#directories.withParent(key, async () => renameSync(this.#at(aside), this.#at(key)));
      this.#unsynced.changed(key);
    } catch (error) {
      // It was never moved away, or it is already back.
      if (isAbsent(error) && this.#lstatIfThere(key) !== undefined) return;
      throw isAbsent(error) ? notFound(this.#storage, key, error) : error;
    }
  }

  #at(key: Key): string {
    return this.#handles.entryPath(key);
  }

  #lstatIfThere(key: Key): Stats | undefined {
    return undefinedIfAbsent(() => lstatSync(this.#at(key)));
  }

  /**
   * Flushes the files that are about to be moved. For a directory, that includes all the files in it, and the
   * directories that lead to them.
   */
  async #makeSourcesDurable(moves: readonly Move[]): Promise<void> {
    const files: Key[] = [];
    const trees = new Set<Key>();
    for (const { from, isDirectory } of moves)
      if (isDirectory === true) trees.add(from);
      else if (this.#staged.delete(from)) files.push(from);
    const names = new Set<Key | ''>();
    if (trees.size > 0) {
      for (const file of this.#staged)
        if (namesLeadingTo(parentOf(file), trees, names)) {
          files.push(file);
          this.#staged.delete(file);
        }
      for (const directory of this.#unsynced.directories()) namesLeadingTo(directory, trees, names);
    }
    for (const directory of names) this.#unsynced.forget(directory);
    await this.#handles.makeDurable(files, names);
  }

  async #moveFile(from: Key, to: Key): Promise<void> {
    await this.#directories.withParent(to, async () => this.#replaceBy(from, to));
    this.#unsynced.changed(to);
  }

  /**
   * Moves a directory. If another program has created a directory at `to` in the meantime, moves the entries
   * one by one. The permissions of that directory are not changed.
   */
  async #moveDirectory(from: Key, to: Key): Promise<void> {
    if (await this.#hasMovedWhole(from, to)) {
      this.#unsynced.changed(to);
      return;
    }
    for (const entry of readdirSync(this.#handles.directoryPath(from), { withFileTypes: true })) {
      const source = joinKey(from, entry.name);
      const target = joinKey(to, entry.name);
      await (entry.isDirectory() ? this.#moveDirectory(source, target) : this.#moveFile(source, target));
    }
    rmdirSync(this.#at(from));
  }

  async #hasMovedWhole(from: Key, to: Key): Promise<boolean> {
    if (this.#lstatIfThere(to) !== undefined) return false;
    try {
      await this.#directories.withParent(to, async () => renameSync(this.#at(from), this.#at(to)));
      this.#handles.moved(from);
      return true;
    } catch (error) {
      const isTaken = ['EEXIST', 'ENOTEMPTY', 'ENOTDIR'].includes(errnoOf(error) ?? '');
      if (!isTaken || this.#lstatIfThere(to) === undefined) throw error;
      return false;
    }
  }

  /** Replaces a file or an empty directory. */
  #replaceBy(from: Key, to: Key): void {
    try {
      renameSync(this.#at(from), this.#at(to));
    } catch (error) {
      if (errnoOf(error) !== 'EISDIR' || !removeIfEmpty(this.#handles, to)) throw error;
      renameSync(this.#at(from), this.#at(to));
    }
  }

  /**
   * Moves a file aside. If there already is one at `aside`, an earlier call has moved it there, and its
   * response was lost.
   */
  async #moveAside(key: Key, aside: Key): Promise<void> {
    const found = this.#lstatIfThere(key);
    if (found === undefined || found.isDirectory() || this.#lstatIfThere(aside) !== undefined) return;
    await this.#directories.withParent(aside, async () => renameSync(this.#at(key), this.#at(aside)));
  }

  async #backUpBy(key: Key, aside: Key): Promise<BackupMethod | null> {
    try {
      await this.#directories.withParent(aside, async () => linkSync(this.#at(key), this.#at(aside)));
      return 'link';
    } catch (error) {
      const isKept = isSame(this.#lstatIfThere(key), this.#lstatIfThere(aside));
      if (errnoOf(error) === 'EEXIST' && isKept) return 'link';
    }
    const found = this.#lstatIfThere(key);
    if (found === undefined || found.isDirectory()) return null;
    if (!found.isFile() && !found.isSymbolicLink()) return 'move';
    this.#copied.set(aside, found);
    if (found.isSymbolicLink())
      await this.#directories.withParent(aside, async () =>
        symlinkSync(readlinkSync(this.#at(key)), this.#at(aside)),
      );
    else await this.#copyAside(key, aside, found);
    return 'copy';
  }

  /** Copies a file through its descriptors, because its name may change while the thread pool is copying. */
  async #copyAside(key: Key, aside: Key, { dev, ino, mode, atime, mtime }: Stats): Promise<void> {
    const source = openToRead(this.#storage, key, this.#at(key), { device: dev, inode: ino });
    try {
      const target = await this.#directories.withParent(aside, async () =>
        createFile(this.#at(aside), 0o600),
      );
      try {
        const from = openPath(source, this.#at(key));
        const to = openPath(target, this.#at(aside));
        await copyFile(from, to, constants.COPYFILE_FICLONE);
        fchmodSync(target, mode & 0o7777);
        futimesSync(target, atime, mtime);
      } finally {
        closeSync(target);
      }
    } finally {
      closeSync(source);
    }
  }
}

/**
 * Returns true if a directory is one of these trees, or below one of them. In that case, adds the directory
 * and those between it and the tree to `names`.
 */
function namesLeadingTo(directory: Key | '', trees: ReadonlySet<Key>, names: Set<Key | ''>): boolean {
  if (directory === '') return false;
  if (names.has(directory)) return true;
  if (!trees.has(directory) && !namesLeadingTo(parentOf(directory), trees, names)) return false;
  names.add(directory);
  return true;
}

function isSame(one: Stats | undefined, other: Stats | undefined): boolean {
  return one !== undefined && one.ino === other?.ino && one.dev === other.dev;
}
