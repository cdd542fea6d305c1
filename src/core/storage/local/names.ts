import { lstatSync, readdirSync, renameSync, rmdirSync, type Stats } from 'node:fs';
import { setImmediate as breathe } from 'node:timers/promises';
import { notFound } from '../errors.ts';
import { joinKey, parentOf, type Key } from '../key.ts';
import type { Move, Storage } from '../storage.ts';
import type { LocalDirectories } from './directories.ts';
import { entriesPerBreath } from './entries.ts';
import { errnoOf, isAbsent, localFailure, unlessAbsent } from './errors.ts';
import type { DirectoryHandles } from './handles.ts';
import { removedIfEmpty } from './remove-tree.ts';

/**
 * The names that a storage changes, and what has to be flushed to disk for them: the content of a file before
 * its name, and the names before a later change of names relies on them.
 */
export interface LocalNames {
  /** The scratch file at `key` has content that is not durable yet; it becomes so when it is renamed. */
  staged(key: Key): void;
  /** A name in this directory has been changed. */
  changedIn(directory: Key | ''): void;
  /** As `Storage.rename`, but that `allow` is called with each key before it changes. */
  rename(moves: readonly Move[], allow: (key: Key) => void): Promise<void>;
  /** Makes the names that were changed durable. Throws system errors as Node.js reports them. */
  flush(): Promise<void>;
  /** Forgets all of it. */
  clear(): void;
}

export function localNames(
  storage: Pick<Storage, 'label'>,
  handles: DirectoryHandles,
  directories: LocalDirectories,
): LocalNames {
  const at = (key: Key): string => handles.at(key);
  const lstatIfThere = (key: Key): Stats | undefined => unlessAbsent(() => lstatSync(at(key)));
  /** Scratch files whose content has not been synced. */
  const unsynced = new Set<Key>();
  /** Directories with changed names that have not been synced. */
  const changed = new Set<Key | ''>();

  return {
    staged: (key) => void unsynced.add(key),
    changedIn: (directory) => void changed.add(directory),
    flush,

    async rename(moves, allow) {
      try {
        await makeSourcesDurable(moves);
        await flush();
      } catch (error) {
        throw localFailure(storage, moves[0]?.from ?? '', error);
      }
      let count = 0;
      for (const move of moves) {
        const { from, to, aside } = move;
        allow(to);
        try {
          if (aside !== undefined) await moveAside(to, aside);
          if (move.isDirectory === true) await moveDirectory(from, to);
          else await moveFile(from, to);
        } catch (error) {
          throw isAbsent(error) ? notFound(storage, from, error) : localFailure(storage, to, error);
        }
        count += 1;
        if (count % entriesPerBreath === 0) await breathe();
      }
    },

    clear() {
      unsynced.clear();
      changed.clear();
    },
  };

  async function flush(): Promise<void> {
    if (changed.size === 0) return;
    const flushed = [...changed];
    changed.clear();
    await handles.makeDurable([], flushed);
  }

  /** Of a directory that moves, the files in it and the names that lead to them. */
  async function makeSourcesDurable(moves: readonly Move[]): Promise<void> {
    const files: Key[] = [];
    const trees = new Set<Key>();
    for (const { from, isDirectory } of moves)
      if (isDirectory === true) trees.add(from);
      else if (unsynced.delete(from)) files.push(from);
    const names = new Set<Key | ''>();
    if (trees.size > 0) {
      for (const file of unsynced)
        if (namesLeadingTo(parentOf(file), trees, names)) {
          files.push(file);
          unsynced.delete(file);
        }
      for (const directory of changed) namesLeadingTo(directory, trees, names);
    }
    for (const directory of names) changed.delete(directory);
    await handles.makeDurable(files, names);
  }

  /** Whether a directory is one of these trees or lies below one; then adds it and those between. */
  function namesLeadingTo(directory: Key | '', trees: ReadonlySet<Key>, names: Set<Key | ''>): boolean {
    if (directory === '') return false;
    if (names.has(directory)) return true;
    if (!trees.has(directory) && !namesLeadingTo(parentOf(directory), trees, names)) return false;
    names.add(directory);
    return true;
  }

  async function moveFile(source: Key, to: Key): Promise<void> {
    await directories.withParent(to, async () => replaceBy(source, to));
    changed.add(parentOf(to));
  }

  /** Somebody else may have made a directory there since it was looked for; its rights stay as they are. */
  async function moveDirectory(source: Key, to: Key): Promise<void> {
    if (await hasMovedWhole(source, to)) {
      changed.add(parentOf(to));
      return;
    }
    for (const entry of readdirSync(handles.of(source), { withFileTypes: true })) {
      const [from, target] = [joinKey(source, entry.name), joinKey(to, entry.name)];
      await (entry.isDirectory() ? moveDirectory(from, target) : moveFile(from, target));
    }
    rmdirSync(at(source));
  }

  async function hasMovedWhole(source: Key, to: Key): Promise<boolean> {
    if (lstatIfThere(to) !== undefined) return false;
    try {
      await directories.withParent(to, async () => renameSync(at(source), at(to)));
      handles.moved(source);
      return true;
    } catch (error) {
      const isTaken = ['EEXIST', 'ENOTEMPTY', 'ENOTDIR'].includes(errnoOf(error) ?? '');
      if (!isTaken || lstatIfThere(to) === undefined) throw error;
      return false;
    }
  }

  /** A directory that holds nothing is replaced like a file. */
  function replaceBy(source: Key, to: Key): void {
    try {
      renameSync(at(source), at(to));
    } catch (error) {
      if (errnoOf(error) !== 'EISDIR' || !removedIfEmpty(handles, to)) throw error;
      renameSync(at(source), at(to));
    }
  }

  /** What is at `aside` already was moved there by a call whose answer was lost. */
  async function moveAside(key: Key, aside: Key): Promise<void> {
    const found = lstatIfThere(key);
    if (found === undefined || found.isDirectory() || lstatIfThere(aside) !== undefined) return;
    await directories.withParent(aside, async () => renameSync(at(key), at(aside)));
  }
}
