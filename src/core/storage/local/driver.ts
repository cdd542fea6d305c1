import {
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmdirSync,
  statSync,
  unlinkSync,
  type Dirent,
  type Stats,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { setImmediate as breathe } from 'node:timers/promises';
import { WaybillError } from '../../errors.ts';
import { alreadyExists, notFound, readOnly as refuseReadOnly } from '../errors.ts';
import { joinKey, listedKey, parentOf, type Key } from '../key.ts';
import { errnoOf, localFailure } from './errors.ts';
import { copyToFile, readChunks } from './copy.ts';
import { makeDurable, syncDirectories } from './sync.ts';
import type { Entry, EntryType, FileStat, Move, Storage, WriteOptions, Written } from '../storage.ts';

/** Listings hand the event loop back after this many entries, so that timers (the lease's above all) run. */
const entriesPerBreath = 2048;

/**
 * A directory of this machine. The root may be missing: it lists as empty and the first write makes it.
 *
 * Below the root no symbolic link is followed when writing: a link is an entry of its own, never a way out.
 * Metadata calls are synchronous, because a system call of three microseconds costs fifty when it goes
 * through the thread pool, which all threads of a process share.
 */
export async function localStorage(
  root: string,
  options: { readOnly?: boolean; mustExist?: boolean } = {},
): Promise<Storage> {
  if (options.mustExist === true) requireDirectory(root);
  const base = realOrResolved(root);
  const knownDirectories = new Set<string>();
  const unsynced = new Set<string>();
  const renamedIn = new Set<string>();
  /**
   * Where something was created on condition: left for what it was created for, and removed, if empty, with
   * it.
   */
  const emptyScratch = new Set<Key>();
  // Keys are normal already; `path.join` would look at each of their characters once more.
  const at = (key: Key | ''): string => (key === '' ? base : `${base}/${key}`);
  const fail = (key: string, error: unknown): WaybillError => localFailure(storage, key, error);

  const storage: Storage = {
    label: 'local storage',
    facts: { rename: 'atomic', conditionalWrites: async () => 'create', localRoot: base, clockOffsetMs: 0 },

    async stat(key): Promise<FileStat | undefined> {
      try {
        const found = lstatSync(at(key));
        return {
          type: typeOf(found),
          size: found.isFile() ? found.size : 0,
          version: null,
          modifiedAt: found.mtime,
        };
      } catch (error) {
        if (isAbsent(error)) return undefined;
        throw fail(key, error);
      }
    },

    async *list(directory, { recursive }): AsyncIterable<Entry> {
      let sinceBreath = 0;
      const pending: (Key | '')[] = [directory];
      for (let current = pending.pop(); current !== undefined; current = pending.pop()) {
        for (const dirent of readDirectory(current)) {
          const key = listedKey(joinKey(current, dirent.name));
          const type = typeOf(dirent);
          if (type === 'directory' && recursive) pending.push(key);
          else {
            const size = type === 'file' ? sizeOf(key) : 0;
            if (size !== undefined) yield { key, type, size };
          }
          sinceBreath += 1;
          if (sinceBreath % entriesPerBreath === 0) await breathe();
        }
      }
    },

    async *read(key): AsyncIterable<Uint8Array> {
      try {
        yield* readChunks(at(key));
      } catch (error) {
        throw isAbsent(error) ? notFound(storage, key, error) : fail(key, error);
      }
    },

    async write(key, body, write): Promise<Written> {
      if (options.readOnly === true) throw refuseReadOnly(storage, key);
      try {
        if (write.mode === 'scratch') {
          const written = await inDirectoryOf(key, () => copyToFile(key, at(key), body, write));
          unsynced.add(at(key));
          return written;
        }
        return await writeWhole(key, body, write);
      } catch (error) {
        throw fail(key, error);
      }
    },

    async rename(moves: readonly Move[]): Promise<void> {
      const froms = moves.map(({ from }) => at(from));
      try {
        await makeDurable(froms.filter((from) => unsynced.delete(from)));
        await syncNames();
      } catch (error) {
        throw fail(moves[0]?.from ?? '', error);
      }
      for (const [index, { from, to }] of moves.entries()) {
        if (options.readOnly === true) throw refuseReadOnly(storage, to);
        try {
          await inDirectoryOf(to, async () => renameSync(froms[index] as string, at(to)));
        } catch (error) {
          if (isAbsent(error)) throw notFound(storage, from, error);
          throw fail(to, error);
        }
        renamedIn.add(path.dirname(at(to)));
        if ((index + 1) % entriesPerBreath === 0) await breathe();
      }
    },

    async sync(): Promise<void> {
      try {
        await syncNames();
      } catch (error) {
        throw fail('', error);
      }
    },

    async remove(key): Promise<void> {
      if (options.readOnly === true) throw refuseReadOnly(storage, key);
      try {
        await syncNames();
        unlinkSync(at(key));
      } catch (error) {
        // A directory of that name is no file: there is nothing to remove (Linux says EISDIR, others EPERM).
        const isNoFile = isAbsent(error) || lstatIfThere(at(key))?.isDirectory() === true;
        if (!isNoFile) throw fail(key, error);
      }
      removeScratchOf(key);
      removeEmptyDirectories(parentOf(key));
    },

    async removeTree(directory): Promise<void> {
      if (options.readOnly === true) throw refuseReadOnly(storage, directory);
      try {
        await syncNames();
        if (!isEmptyAndGone(directory)) {
          const aside = `${at(directory)}.gone-${randomUUID()}`;
          renameSync(at(directory), aside);
          await rm(aside, { recursive: true, force: true });
        }
      } catch (error) {
        if (!isAbsent(error)) throw fail(directory, error);
      }
      forget(at(directory));
      removeEmptyDirectories(parentOf(directory));
    },

    async close(): Promise<void> {
      for (const directory of emptyScratch) removeEmptyDirectories(directory);
      knownDirectories.clear();
      unsynced.clear();
      renamedIn.clear();
    },
  };
  return storage;

  function readDirectory(directory: Key | ''): Dirent[] {
    try {
      return readdirSync(at(directory), { withFileTypes: true });
    } catch (error) {
      if (isAbsent(error)) return [];
      throw fail(directory === '' ? '.' : directory, error);
    }
  }

  /** Undefined where the file went away between the listing and now: then it is simply not there. */
  function sizeOf(key: Key): number | undefined {
    try {
      return lstatSync(at(key)).size;
    } catch (error) {
      if (isAbsent(error)) return undefined;
      throw fail(key, error);
    }
  }

  /** Writes beside the target under a name that sweeps know, then puts it in place in one step. */
  async function writeWhole(
    key: Key,
    body: Parameters<Storage['write']>[1],
    write: WriteOptions,
  ): Promise<Written> {
    const scratch = joinKey(scratchOf(key), `write-${randomUUID()}`);
    try {
      const written = await inDirectoryOf(scratch, () => copyToFile(key, at(scratch), body, write));
      if (write.mode === 'create') {
        linkOnce(key, scratch);
        emptyScratch.add(scratchOf(key));
      } else {
        await makeDurable([at(scratch)]);
        renameSync(at(scratch), at(key));
        await syncDirectories([path.dirname(at(key))]);
      }
      return written;
    } finally {
      removeIfThere(at(scratch));
      // Whoever has just created a lock is about to stage what it is for; the directory goes at the latest
      // with the lock.
      if (!emptyScratch.has(scratchOf(key))) removeEmptyDirectories(scratchOf(key));
    }
  }

  function scratchOf(key: Key): Key {
    return joinKey(parentOf(key), '.publisher.tmp');
  }

  function removeScratchOf(key: Key): void {
    if (emptyScratch.has(scratchOf(key))) removeEmptyDirectories(scratchOf(key));
  }

  /** What is done next may rely on them. */
  async function syncNames(): Promise<void> {
    if (renamedIn.size === 0) return;
    const directories = [...renamedIn];
    renamedIn.clear();
    await syncDirectories(directories);
  }

  /** Removes it where that is all there is to do. Throws where nothing is there. */
  function isEmptyAndGone(directory: Key): boolean {
    try {
      rmdirSync(at(directory));
      return true;
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') throw error;
      return false;
    }
  }

  function linkOnce(key: Key, scratch: Key): void {
    try {
      linkSync(at(scratch), at(key));
    } catch (error) {
      throw errnoOf(error) === 'EEXIST' ? alreadyExists(storage, key, error) : error;
    }
  }

  /**
   * Runs `work` with the key's directory made; once more where someone removed it, or one above it, being
   * empty, in between.
   */
  async function inDirectoryOf<T>(key: Key, work: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        makeDirectory(parentOf(key));
        return await work();
      } catch (error) {
        const isGone = isAbsent(error) && lstatIfThere(path.dirname(at(key))) === undefined;
        if (!isGone || attempt === 5) throw error;
        knownDirectories.clear();
      }
    }
  }

  function makeDirectory(directory: Key | ''): void {
    const absolute = at(directory);
    if (knownDirectories.has(absolute)) return;
    if (directory !== '') makeDirectory(parentOf(directory));
    try {
      mkdirSync(absolute, { recursive: directory === '' });
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
    }
    const found = lstatSync(absolute);
    if (!found.isDirectory()) throw notADirectory(storage, directory, found.isSymbolicLink());
    knownDirectories.add(absolute);
  }

  /**
   * Up to and not including the root. Someone else may remove or fill a directory at the same moment: both
   * are fine.
   */
  function removeEmptyDirectories(directory: Key | ''): void {
    for (let current = directory; current !== ''; current = parentOf(current)) {
      knownDirectories.delete(at(current));
      emptyScratch.delete(current);
      try {
        rmdirSync(at(current));
      } catch (error) {
        if (isAbsent(error)) continue;
        return;
      }
    }
  }

  function forget(directory: string): void {
    for (const known of knownDirectories)
      if (known === directory || known.startsWith(directory + path.sep)) knownDirectories.delete(known);
  }
}

function requireDirectory(root: string): void {
  let found: Stats;
  try {
    found = statSync(root);
  } catch (error) {
    throw localFailure({ label: 'local storage' }, root, error);
  }
  if (!found.isDirectory())
    throw new WaybillError('storage_permanent', `local storage: "${root}" is not a directory`);
}

function realOrResolved(root: string): string {
  try {
    return realpathSync.native(root);
  } catch {
    return path.resolve(root);
  }
}

function lstatIfThere(file: string): Stats | undefined {
  return lstatSync(file, { throwIfNoEntry: false });
}

function removeIfThere(file: string): void {
  try {
    unlinkSync(file);
  } catch {
    // Put in place already, or never written; what cannot be removed is swept by whoever comes next.
  }
}

function notADirectory(storage: Storage, directory: Key | '', isLink: boolean): WaybillError {
  const what = directory === '' ? 'the root' : `"${directory}"`;
  return new WaybillError('storage_permanent', `${storage.label}: ${what} is not a directory`, {
    hint: isLink
      ? 'it is a symbolic link, which waybill does not follow below a root; replace it by a directory, or configure its target as a root'
      : 'move what is there away, or publish to another path',
  });
}

/** Nothing is there: the name itself is missing, or something on the way to it is a file. */
function isAbsent(error: unknown): boolean {
  return errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR';
}

function typeOf(found: Pick<Dirent, 'isFile' | 'isDirectory' | 'isSymbolicLink'>): EntryType {
  if (found.isFile()) return 'file';
  if (found.isDirectory()) return 'directory';
  return found.isSymbolicLink() ? 'link' : 'other';
}
