import { lstatSync, mkdirSync, rmdirSync } from 'node:fs';
import { errnoOf, isAbsent } from '../../lib/system-errors.ts';
import { type Key, parentOf } from '../key.ts';
import type { Storage } from '../storage.ts';
import { notADirectory } from '../storage-errors.ts';
import type { DirectoryHandles } from './local-directories.ts';
import { applyMode, cannotCreateDirectory, createRoot } from './local-root.ts';
import type { UnsyncedNames } from './unsynced-names.ts';

/**
 * The maximum number of attempts if other processes keep deleting a directory between its creation and its
 * use. It is unlikely that this happens so many times in a row.
 */
const maxAttempts = 1000;

/**
 * Manages directories, which only exist because of the files in them. They are created when a file is
 * written, and deleted along with their last file.
 */
export class ImpliedDirectories {
  readonly #storage: Pick<Storage, 'label'>;
  readonly #handles: DirectoryHandles;
  readonly #mode: number;
  readonly #unsynced: UnsyncedNames;
  readonly #kept = new Set<Key>();

  constructor(
    storage: Pick<Storage, 'label'>,
    handles: DirectoryHandles,
    unsynced: UnsyncedNames,
    mode: number,
  ) {
    this.#storage = storage;
    this.#handles = handles;
    this.#mode = mode;
    this.#unsynced = unsynced;
  }

  /**
   * Creates the parent directory of `key` and then runs `work`. If the directory, or one above it, is deleted
   * by another process in between because it is empty, does both again.
   */
  async withParent<T>(key: Key, work: () => Promise<T>): Promise<T> {
    const parent = parentOf(key);
    for (let attempt = 1; ; attempt += 1) {
      let used: object | undefined;
      try {
        if (attempt > 1 || !this.#handles.isOpen(parent)) this.#create(parent);
        used = this.#handles.identityToken(parent);
        return await work();
      } catch (error) {
        // If the directory has not been replaced since, it is something else that is missing.
        if (!isAbsent(error) || attempt === maxAttempts || this.#handles.isUnchanged(parent, used))
          throw error;
      }
    }
  }

  /**
   * Deletes `directory` if it is empty, and then its parents as long as they are empty, but never the root.
   * Other processes may delete the same directories, or add files to them, at any time.
   */
  removeEmpty(directory: Key | ''): void {
    for (let current = directory; current !== ''; current = parentOf(current)) {
      this.#kept.delete(current);
      try {
        rmdirSync(this.#handles.entryPath(current));
        this.#unsynced.removed(current);
      } catch (error) {
        if (isAbsent(error)) continue;
        return;
      }
    }
  }

  /**
   * Prevents a directory from being deleted while it is empty, until `removeEmpty` is called for it again.
   */
  keep(directory: Key): void {
    this.#kept.add(directory);
  }

  isKept(directory: Key): boolean {
    return this.#kept.has(directory);
  }

  /** Deletes the directories that were kept, if they are still empty. */
  close(): void {
    for (const directory of this.#kept) this.removeEmpty(directory);
  }

  /** Creates a directory and its parents, unless it can already be opened. */
  #create(directory: Key | ''): void {
    if (this.#isThere(directory)) return;
    const handles = this.#handles;
    if (directory === '') createRoot(handles.absolute(''), this.#mode);
    else {
      this.#create(parentOf(directory));
      this.#makeOne(directory);
    }
    if (this.#isThere(directory)) return;
    const found = lstatSync(directory === '' ? handles.absolute('') : handles.entryPath(directory));
    // If another process has created it in the meantime, `withParent` opens it.
    if (!found.isDirectory())
      throw notADirectory(this.#storage, directory, { isLink: found.isSymbolicLink() });
  }

  #isThere(directory: Key | ''): boolean {
    try {
      this.#handles.directoryPath(directory);
      return true;
    } catch (error) {
      // ELOOP means that a link above the root points back to itself.
      if (isAbsent(error) || errnoOf(error) === 'ELOOP') return false;
      throw error;
    }
  }

  #makeOne(directory: Key): void {
    try {
      mkdirSync(this.#handles.entryPath(directory), { mode: this.#mode });
      this.#unsynced.made(directory);
      applyMode(this.#handles.directoryPath(directory), this.#mode);
    } catch (error) {
      if (errnoOf(error) === 'EEXIST') return;
      // If another process has deleted the parent in the meantime, `withParent` creates both of them again.
      throw isAbsent(error) ? error : cannotCreateDirectory(this.#storage, directory, error);
    }
  }
}
