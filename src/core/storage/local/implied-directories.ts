import { lstatSync, mkdirSync, rmdirSync } from 'node:fs';
import { errnoOf, isAbsent } from '../../lib/system-errors.ts';
import { notADirectory } from '../errors.ts';
import { type Key, parentOf } from '../key.ts';
import type { Storage } from '../storage.ts';
import type { DirectoryHandles } from './directories.ts';
import { applyMode, cannotMakeDirectory, makeRoot } from './root.ts';
import type { UnsyncedNames } from './unsynced-names.ts';

/**
 * Other processes may remove a directory between its creation and its use, but are unlikely to do so this
 * often.
 */
const maxAttempts = 1000;

/**
 * Manages the directories that keys imply. They are created when a file is written below them and removed
 * with their last file.
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
   * Creates the parent directory of `key` and runs `work`. Repeats both if another process removes the
   * directory, or one above it, in between because it is empty.
   */
  async withParent<T>(key: Key, work: () => Promise<T>): Promise<T> {
    const parent = parentOf(key);
    for (let attempt = 1; ; attempt += 1) {
      let used: object | undefined;
      try {
        if (attempt > 1 || !this.#handles.isOpen(parent)) this.#create(parent);
        used = this.#handles.opened(parent);
        return await work();
      } catch (error) {
        // If the directory is still the one that was used, something else is missing.
        if (!isAbsent(error) || attempt === maxAttempts || this.#handles.isStill(parent, used)) throw error;
      }
    }
  }

  /**
   * Removes `directory` and its parents as long as they are empty, up to but not including the root. Another
   * process may remove or fill a directory at the same time.
   */
  removeEmpty(directory: Key | ''): void {
    for (let current = directory; current !== ''; current = parentOf(current)) {
      this.#kept.delete(current);
      try {
        rmdirSync(this.#handles.at(current));
        this.#unsynced.removed(current);
      } catch (error) {
        if (isAbsent(error)) continue;
        return;
      }
    }
  }

  /** Keeps a directory even if it is empty, until `removeEmpty` next reaches it. */
  keep(directory: Key): void {
    this.#kept.add(directory);
  }

  isKept(directory: Key): boolean {
    return this.#kept.has(directory);
  }

  /** Removes the kept directories that are still empty. */
  close(): void {
    for (const directory of this.#kept) this.removeEmpty(directory);
  }

  /** Creates the directory and its parents, unless it can be opened. */
  #create(directory: Key | ''): void {
    if (this.#isThere(directory)) return;
    const handles = this.#handles;
    if (directory === '') makeRoot(this.#storage, handles.absolute(''), this.#mode);
    else {
      this.#create(parentOf(directory));
      this.#makeOne(directory);
    }
    if (this.#isThere(directory)) return;
    const found = lstatSync(directory === '' ? handles.absolute('') : handles.at(directory));
    // Another process may have created it since, in which case `withParent` opens it.
    if (!found.isDirectory())
      throw notADirectory(this.#storage, directory, { isLink: found.isSymbolicLink() });
  }

  #isThere(directory: Key | ''): boolean {
    try {
      this.#handles.of(directory);
      return true;
    } catch (error) {
      // ELOOP means that a link above the root leads to itself.
      if (isAbsent(error) || errnoOf(error) === 'ELOOP') return false;
      throw error;
    }
  }

  #makeOne(directory: Key): void {
    try {
      mkdirSync(this.#handles.at(directory), { mode: this.#mode });
      this.#unsynced.made(directory);
      applyMode(this.#handles.of(directory), this.#mode);
    } catch (error) {
      if (errnoOf(error) === 'EEXIST') return;
      // If another process has removed the parent in the meantime, `withParent` creates both again.
      throw isAbsent(error) ? error : cannotMakeDirectory(this.#storage, directory, error);
    }
  }
}
