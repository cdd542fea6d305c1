import { lstatSync, mkdirSync, rmdirSync } from 'node:fs';
import { notADirectory } from '../errors.ts';
import { parentOf, type Key } from '../key.ts';
import { publishedModes } from '../modes.ts';
import type { Storage } from '../storage.ts';
import { cannotMakeDirectory, errnoOf, isAbsent } from './errors.ts';
import type { DirectoryHandles } from './handles.ts';
import { applyMode } from './apply-mode.ts';
import { makeRoot } from './root.ts';

/**
 * The directories that keys imply: created when a file is written below them, removed with their last file.
 */
export interface LocalDirectories {
  /**
   * Creates the parent directory of `key` and runs `work`. If another process removes the directory, or one
   * above it, in between because it is empty, both are repeated.
   */
  withParent<T>(key: Key, work: () => Promise<T>): Promise<T>;
  /**
   * Removes `directory` and its parents as long as they are empty, up to but not including the root. Another
   * process may remove or fill a directory at the same time.
   */
  removeEmpty(directory: Key | ''): void;
  /** Marks a directory as kept although it is empty, until `removeEmpty` next comes to it. */
  keep(directory: Key): void;
  isKept(directory: Key): boolean;
  /** Removes the kept directories that are still empty. */
  close(): void;
}

/** Another process may remove the directory between each making and use of it; it never goes on for long. */
const maxAttempts = 1000;

export function localDirectories(
  storage: Pick<Storage, 'label'>,
  handles: DirectoryHandles,
  mode = publishedModes.directory,
): LocalDirectories {
  const kept = new Set<Key>();

  return {
    async withParent(key, work) {
      const parent = parentOf(key);
      for (let attempt = 1; ; attempt += 1) {
        let used: object | undefined;
        try {
          if (attempt > 1 || !handles.isOpen(parent)) create(parent);
          used = handles.opened(parent);
          return await work();
        } catch (error) {
          // If the directory is still the one that was used, something else is missing.
          if (!isAbsent(error) || attempt === maxAttempts || handles.isStill(parent, used)) throw error;
        }
      }
    },

    removeEmpty,
    keep: (directory) => void kept.add(directory),
    isKept: (directory) => kept.has(directory),

    close() {
      for (const directory of kept) removeEmpty(directory);
    },
  };

  function removeEmpty(directory: Key | ''): void {
    for (let current = directory; current !== ''; current = parentOf(current)) {
      kept.delete(current);
      try {
        rmdirSync(handles.at(current));
      } catch (error) {
        if (isAbsent(error)) continue;
        return;
      }
    }
  }

  /** Makes the directory, and those above it, unless it can be opened. */
  function create(directory: Key | ''): void {
    if (isThere(directory)) return;
    if (directory === '') makeRoot(storage, handles.absolute(''), mode);
    else {
      create(parentOf(directory));
      makeOne(directory);
    }
    if (isThere(directory)) return;
    const found = lstatSync(directory === '' ? handles.absolute('') : handles.at(directory));
    // Another process may have made it since, and `withParent` opens it then.
    if (!found.isDirectory()) throw notADirectory(storage, directory, { isLink: found.isSymbolicLink() });
  }

  function isThere(directory: Key | ''): boolean {
    try {
      handles.of(directory);
      return true;
    } catch (error) {
      // ELOOP: a link above the root leads to itself.
      if (isAbsent(error) || errnoOf(error) === 'ELOOP') return false;
      throw error;
    }
  }

  function makeOne(directory: Key): void {
    try {
      mkdirSync(handles.at(directory), { mode });
      applyMode(handles.of(directory), mode);
    } catch (error) {
      if (errnoOf(error) === 'EEXIST') return;
      // If another process removed the parent meanwhile, `withParent` makes both again.
      throw isAbsent(error) ? error : cannotMakeDirectory(storage, directory, error);
    }
  }
}
