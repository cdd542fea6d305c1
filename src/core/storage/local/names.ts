import { lstatSync, readdirSync, renameSync, rmdirSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as breathe } from 'node:timers/promises';
import { notFound } from '../errors.ts';
import { joinKey, type Key } from '../key.ts';
import type { Move, Storage } from '../storage.ts';
import type { LocalDirectories } from './directories.ts';
import { entriesPerBreath } from './entries.ts';
import { errnoOf, isAbsent, localFailure } from './errors.ts';
import { removedIfEmpty } from './remove-tree.ts';
import { makeDurable, syncDirectories } from './sync.ts';

/**
 * The names that a storage changes, and what has to be flushed to disk for them: the content of a file before
 * its name, and the names before a later change of names relies on them.
 */
export interface LocalNames {
  /** The scratch file at `key` has content that is not durable yet; it becomes so when it is renamed. */
  staged(key: Key): void;
  /** A name in this directory, an absolute path, has been changed. */
  changedIn(directory: string): void;
  /** As `Storage.rename`, but that `allow` is called with each key before it changes. */
  rename(moves: readonly Move[], allow: (key: Key) => void): Promise<void>;
  /** Makes the names that were changed durable. Throws system errors as Node.js reports them. */
  flush(): Promise<void>;
  /** Forgets all of it. */
  clear(): void;
}

export function localNames(
  storage: Pick<Storage, 'label'>,
  at: (key: Key | '') => string,
  directories: LocalDirectories,
): LocalNames {
  /** Scratch files whose content has not been synced. */
  const unsynced = new Set<string>();
  /** Directories with changed names that have not been synced. */
  const changed = new Set<string>();

  return {
    staged: (key) => void unsynced.add(at(key)),
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
          if (move.isDirectory === true) await moveDirectory(at(from), to);
          else await moveFile(at(from), to);
        } catch (error) {
          throw isAbsent(error) ? notFound(storage, from, error) : localFailure(storage, to, error);
        }
        count += 1;
        if (count % entriesPerBreath === 0) await breathe();
      }
      if (moves.some(({ isDirectory }) => isDirectory)) directories.forgetAll();
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
    await syncDirectories(flushed);
  }

  /** Of a directory that moves, the files in it and the names that lead to them. */
  async function makeSourcesDurable(moves: readonly Move[]): Promise<void> {
    const files: string[] = [];
    const trees = new Set<string>();
    for (const { from, isDirectory } of moves)
      if (isDirectory === true) trees.add(at(from));
      else if (unsynced.delete(at(from))) files.push(at(from));
    const names = new Set<string>();
    if (trees.size > 0) {
      for (const file of unsynced)
        if (namesLeadingTo(path.dirname(file), trees, names)) {
          files.push(file);
          unsynced.delete(file);
        }
      for (const directory of changed) namesLeadingTo(directory, trees, names);
    }
    for (const directory of names) changed.delete(directory);
    await makeDurable(files, names);
  }

  /** Whether a directory is one of these trees or lies below one; then adds it and those between. */
  function namesLeadingTo(directory: string, trees: ReadonlySet<string>, names: Set<string>): boolean {
    if (names.has(directory)) return true;
    const isTop = trees.has(directory);
    const parent = path.dirname(directory);
    if (!isTop && (parent === directory || !namesLeadingTo(parent, trees, names))) return false;
    names.add(directory);
    return true;
  }

  async function moveFile(source: string, to: Key): Promise<void> {
    await directories.withParent(to, async () => replaceBy(source, to));
    changed.add(path.dirname(at(to)));
  }

  /** Somebody else may have made a directory there since it was looked for; its rights stay as they are. */
  async function moveDirectory(source: string, to: Key): Promise<void> {
    if (await hasMovedWhole(source, to)) {
      changed.add(path.dirname(at(to)));
      return;
    }
    for (const entry of readdirSync(source, { withFileTypes: true })) {
      const [from, target] = [path.join(source, entry.name), joinKey(to, entry.name)];
      await (entry.isDirectory() ? moveDirectory(from, target) : moveFile(from, target));
    }
    rmdirSync(source);
  }

  async function hasMovedWhole(source: string, to: Key): Promise<boolean> {
    if (lstatSync(at(to), { throwIfNoEntry: false }) !== undefined) return false;
    try {
      await directories.withParent(to, async () => renameSync(source, at(to)));
      return true;
    } catch (error) {
      const isTaken = ['EEXIST', 'ENOTEMPTY', 'ENOTDIR'].includes(errnoOf(error) ?? '');
      if (!isTaken || lstatSync(at(to), { throwIfNoEntry: false }) === undefined) throw error;
      return false;
    }
  }

  /** A directory that holds nothing is replaced like a file. */
  function replaceBy(source: string, to: Key): void {
    try {
      renameSync(source, at(to));
    } catch (error) {
      if (errnoOf(error) !== 'EISDIR' || !removedIfEmpty(at(to))) throw error;
      directories.forgetBelow(to);
      renameSync(source, at(to));
    }
  }

  /** What is at `aside` already was moved there by a call whose answer was lost. */
  async function moveAside(key: Key, aside: Key): Promise<void> {
    const found = lstatSync(at(key), { throwIfNoEntry: false });
    const isAside = lstatSync(at(aside), { throwIfNoEntry: false }) !== undefined;
    if (found === undefined || found.isDirectory() || isAside) return;
    await directories.withParent(aside, async () => renameSync(at(key), at(aside)));
  }
}
