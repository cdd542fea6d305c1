import { lstatSync, renameSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as breathe } from 'node:timers/promises';
import { notFound } from '../errors.ts';
import type { Key } from '../key.ts';
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
      const sources = moves.map(({ from }) => at(from));
      try {
        await makeDurable(sources.filter((source) => unsynced.delete(source)));
        await flush();
      } catch (error) {
        throw localFailure(storage, moves[0]?.from ?? '', error);
      }
      for (const [index, { from, to, aside }] of moves.entries()) {
        allow(to);
        try {
          if (aside !== undefined) await moveAside(to, aside);
          await directories.withParent(to, async () => replaceBy(sources[index] as string, to));
        } catch (error) {
          throw isAbsent(error) ? notFound(storage, from, error) : localFailure(storage, to, error);
        }
        changed.add(path.dirname(at(to)));
        if ((index + 1) % entriesPerBreath === 0) await breathe();
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
    await syncDirectories(flushed);
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
