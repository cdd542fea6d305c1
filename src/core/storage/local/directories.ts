import { lstatSync, mkdirSync, rmdirSync } from 'node:fs';
import path from 'node:path';
import { notADirectory } from '../errors.ts';
import { parentOf, type Key } from '../key.ts';
import type { Storage } from '../storage.ts';
import { cannotMakeDirectory, errnoOf, isAbsent } from './errors.ts';
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
  /**
   * Forgets that `directory` and those below it exist; they are looked for again when they are next needed.
   */
  forgetBelow(directory: Key): void;
  /** The same for all: directories were moved. */
  forgetAll(): void;
  /** Removes the kept directories that are still empty. */
  close(): void;
}

const mostAttempts = 50;
/** From this attempt on, a failure despite an existing directory is taken for a missing file. */
const attemptsBeforeLooking = 10;

export function localDirectories(
  storage: Pick<Storage, 'label'>,
  at: (key: Key | '') => string,
): LocalDirectories {
  /** The absolute paths of directories that have been seen. */
  const known = new Set<string>();
  const kept = new Set<Key>();

  return {
    async withParent(key, work) {
      for (let attempt = 1; ; attempt += 1) {
        try {
          create(parentOf(key));
          return await work();
        } catch (error) {
          if (!isAbsent(error) || attempt === mostAttempts) throw error;
          // The directory may exist again because other processes create and remove it all the time. If it
          // still exists after several attempts, it is something else that is missing.
          const isThere = lstatSync(path.dirname(at(key)), { throwIfNoEntry: false }) !== undefined;
          if (isThere && attempt >= attemptsBeforeLooking) throw error;
          known.clear();
        }
      }
    },

    removeEmpty,
    keep: (directory) => void kept.add(directory),
    isKept: (directory) => kept.has(directory),

    forgetBelow(directory) {
      const absolute = at(directory);
      for (const each of known)
        if (each === absolute || each.startsWith(absolute + path.sep)) known.delete(each);
    },

    forgetAll: () => known.clear(),

    close() {
      for (const directory of kept) removeEmpty(directory);
      known.clear();
    },
  };

  function removeEmpty(directory: Key | ''): void {
    for (let current = directory; current !== ''; current = parentOf(current)) {
      known.delete(at(current));
      kept.delete(current);
      try {
        rmdirSync(at(current));
      } catch (error) {
        if (isAbsent(error)) continue;
        return;
      }
    }
  }

  function create(directory: Key | ''): void {
    const absolute = at(directory);
    if (known.has(absolute)) return;
    if (directory === '') makeRoot(storage, absolute);
    else {
      create(parentOf(directory));
      makeOne(directory);
    }
    const found = lstatSync(absolute);
    if (!found.isDirectory()) throw notADirectory(storage, directory, { isLink: found.isSymbolicLink() });
    known.add(absolute);
  }

  function makeOne(directory: Key): void {
    try {
      mkdirSync(at(directory));
    } catch (error) {
      if (errnoOf(error) === 'EEXIST') return;
      // If another process removed the parent meanwhile, `withParent` makes both again.
      throw isAbsent(error) ? error : cannotMakeDirectory(storage, directory, error);
    }
  }
}
