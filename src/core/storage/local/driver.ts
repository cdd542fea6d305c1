import { linkSync, lstatSync, renameSync, rmdirSync, unlinkSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { setImmediate as breathe } from 'node:timers/promises';
import type { WaybillError } from '../../lib/errors.ts';
import { alreadyExists, notFound, readOnly as refuseReadOnly } from '../errors.ts';
import { listedKey, parentOf, type Key } from '../key.ts';
import { publishedModes, type Modes } from '../modes.ts';
import { scratchBeside, stagingBeside } from '../scratch-key.ts';
import { copyToFile } from './copy.ts';
import { localDirectories } from './directories.ts';
import { entriesBelow, entriesPerBreath, sizeOf, statOf } from './entries.ts';
import { errnoOf, isAbsent, localFailure, unlessAbsent } from './errors.ts';
import { DirectoryHandles } from './handles.ts';
import { localKeeper } from './keep.ts';
import { linkAbove, localLinks } from './links.ts';
import { localNames } from './names.ts';
import { localObstacle } from './obstacles.ts';
import { createFile, openToRead } from './open-file.ts';
import { readChunks } from './read.ts';
import { removeIfThere, removeTreeAt } from './remove-tree.ts';
import { realOrResolved, requireDirectory, requireMakeableRoot } from './root.ts';
import type { Body, FileIdentity, FileStat, Kept, Storage, WriteOptions, Written } from '../storage.ts';

const label = 'local storage';

/**
 * Opens a directory of this machine. `root` may be missing: it then lists as empty, and the first write
 * creates it; if that is seen to be impossible, opening throws what the write would throw (see `makeRoot`).
 * With `mustExist` it throws `storage_not_found` if the root is missing, `storage_denied` if it cannot be
 * looked at and `storage_permanent` if it is not a directory. The rights to create the root are not looked at
 * if `readOnly`, unless that is because of a `dryRun`. Files and directories are made with `modes`, whatever
 * the umask.
 *
 * Symbolic links below the root are never followed when writing or removing; a link is an entry of its own.
 * Calls throw `storage_not_found`, `storage_exists`, `storage_denied` (also for any change if `readOnly`),
 * `storage_full`, `storage_transient`, `storage_permanent` and `body_mismatch`, as the contract says.
 *
 * Metadata calls are synchronous: a system call of three microseconds takes fifty in the thread pool, which
 * all threads of a process share.
 */
export async function localStorage(
  root: string,
  options: { readOnly?: boolean; mustExist?: boolean; dryRun?: boolean; modes?: Modes } = {},
): Promise<Storage> {
  const base = realOrResolved(root);
  if (options.mustExist === true) requireDirectory({ label }, root);
  else requireMakeableRoot({ label }, base, { makes: options.readOnly !== true || options.dryRun === true });
  const { modes = publishedModes } = options;
  const handles = new DirectoryHandles(base);
  const at = (key: Key): string => handles.at(key);
  const fail = (key: string, error: unknown): WaybillError => localFailure(storage, key, error);

  const storage: Storage = {
    label,
    facts: {
      rename: 'atomic',
      conditionalWrites: async () => 'create',
      keepsHeaders: false,
      movesDirectories: true,
      replacesLinks: true,
      largestKeptBytes: null,
      localFiles: {
        open: openFile,
        sizeOf: (key) => handles.near(key, sizeOf),
      },
      clockOffsetMs: 0,
    },

    async stat(key): Promise<FileStat | undefined> {
      try {
        return statOf(() => at(key));
      } catch (error) {
        throw fail(key, error);
      }
    },

    list: (directory, { recursive, onUnreadable, stamps }) =>
      entriesBelow(directory, { handles, fail, isRecursive: recursive, onUnreadable, stamps }),

    async *read(key, expected): AsyncIterable<Uint8Array> {
      try {
        yield* readChunks(() => openFile(key, expected));
      } catch (error) {
        throw isAbsent(error) ? notFound(storage, key, error) : fail(key, error);
      }
    },

    async write(key, body, write): Promise<Written> {
      requireWritable(key);
      try {
        if (write.mode !== 'scratch') return await writeWhole(key, body, write);
        const written = await directories.withParent(key, () => copyToFile(key, create(key), body, write));
        names.staged(key);
        return written;
      } catch (error) {
        throw fail(key, error);
      }
    },

    rename: (moves) => names.rename(moves, requireWritable),

    async obstacleTo(change) {
      try {
        return await localObstacle(storage, handles, change);
      } catch (error) {
        throw fail('', error);
      }
    },

    async keep(key, aside): Promise<Kept | null> {
      requireWritable(key);
      keptFiles += 1;
      if (keptFiles % entriesPerBreath === 0) await breathe();
      try {
        return await keeper.keep(key, aside);
      } catch (error) {
        throw fail(key, error);
      }
    },

    async putBack(kept): Promise<void> {
      requireWritable(kept.key);
      try {
        await keeper.putBack(kept);
      } catch (error) {
        throw fail(kept.key, error);
      }
    },

    async duplicate(from, to): Promise<'link' | null> {
      requireWritable(to);
      duplicates += 1;
      if (duplicates % entriesPerBreath === 0) await breathe();
      try {
        return await links.duplicate(from, to);
      } catch (error) {
        throw fail(to, error);
      }
    },

    async readLink(key): Promise<string | null> {
      try {
        return links.read(key);
      } catch (error) {
        throw fail(key, error);
      }
    },

    async replaceLink(key, target): Promise<void> {
      requireWritable(key);
      try {
        await names.flush();
        await links.replace(key, target);
      } catch (error) {
        throw fail(key, error);
      }
    },

    async sync(): Promise<void> {
      try {
        await names.flush();
      } catch (error) {
        throw fail('', error);
      }
    },

    async remove(key): Promise<void> {
      requireWritable(key);
      refuseLinkAbove(key);
      try {
        await names.flush();
        unlinkSync(at(key));
      } catch (error) {
        // A directory of that name is not a file, so there is nothing to remove (EISDIR on Linux, else
        // EPERM).
        const isNoFile = isAbsent(error) || unlessAbsent(() => lstatSync(at(key)))?.isDirectory() === true;
        if (!isNoFile) throw fail(key, error);
      }
      const staging = stagingBeside(key);
      if (directories.isKept(staging)) directories.removeEmpty(staging);
      directories.removeEmpty(parentOf(key));
    },

    async removeTree(directory): Promise<void> {
      requireWritable(directory);
      refuseLinkAbove(directory);
      try {
        await names.flush();
        if (!removedAsEmpty(directory)) {
          const aside = listedKey(`${directory}.gone-${randomUUID()}`);
          renameSync(at(directory), at(aside));
          handles.moved(directory);
          await removeTreeAt(handles, aside);
        }
      } catch (error) {
        if (!isAbsent(error)) throw fail(directory, error);
      }
      directories.removeEmpty(parentOf(directory));
    },

    async close(): Promise<void> {
      directories.close();
      names.clear();
      handles.close();
    },
  };
  const directories = localDirectories(storage, handles, modes.directory);
  const names = localNames(storage, handles, directories);
  const keeper = localKeeper(storage, handles, directories, (directory) => names.changedIn(directory));
  const links = localLinks(storage, handles, directories, (directory) => names.changedIn(directory));
  let keptFiles = 0;
  let duplicates = 0;
  return storage;

  function openFile(key: Key, expected?: FileIdentity): number {
    return handles.near(key, (file) => openToRead(storage, key, file, expected));
  }

  function create(key: Key): () => number {
    return () => handles.near(key, (file) => createFile(file, modes.file));
  }

  function requireWritable(key: Key): void {
    if (options.readOnly === true) throw refuseReadOnly(storage, key);
  }

  function refuseLinkAbove(key: Key): void {
    let refusal: WaybillError | null = null;
    try {
      refusal = linkAbove(storage, handles, key);
    } catch (error) {
      if (!isAbsent(error)) throw fail(key, error);
    }
    if (refusal !== null) throw refusal;
  }

  /**
   * Writes to the staging directory, from which an interrupted write is swept, then moves the file in one
   * step.
   */
  async function writeWhole(key: Key, body: Body, write: WriteOptions): Promise<Written> {
    const scratch = scratchBeside(key);
    const staging = stagingBeside(key);
    try {
      const written = await directories.withParent(scratch, () =>
        copyToFile(key, create(scratch), body, write),
      );
      if (write.mode === 'create') {
        linkIfFree(scratch, key);
        directories.keep(staging);
      } else {
        await handles.makeDurable([scratch]);
        renameSync(at(scratch), at(key));
        await handles.makeDurable([], [parentOf(key)]);
      }
      return written;
    } finally {
      removeIfThere(handles, scratch);
      // The holder of a new lock stages its files next, so it keeps the directory until the lock is removed.
      if (!directories.isKept(staging)) directories.removeEmpty(staging);
    }
  }

  function linkIfFree(from: Key, to: Key): void {
    try {
      linkSync(at(from), at(to));
    } catch (error) {
      throw errnoOf(error) === 'EEXIST' ? alreadyExists(storage, to, error) : error;
    }
  }

  /** False if the directory has content. Throws ENOENT if there is no such directory. */
  function removedAsEmpty(directory: Key): boolean {
    try {
      rmdirSync(at(directory));
      return true;
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') throw error;
      return false;
    }
  }
}
