import { isUtf8 } from 'node:buffer';
import {
  type BigIntStats,
  closeSync,
  lstatSync,
  readdirSync,
  rmdirSync,
  type Stats,
  unlinkSync,
} from 'node:fs';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { errnoOf, isAbsent, undefinedIfAbsent } from '../../lib/system-errors.ts';
import { escapedName } from '../../lib/text.ts';
import { localFailure } from '../errors.ts';
import { joinKey, type Key, listedKey } from '../key.ts';
import type { Entry, EntryType, FileStat, ListOptions, Stamp, Storage, UnreadableName } from '../storage.ts';
import { type DirectoryHandles, openDirectory } from './directories.ts';

/**
 * Long loops yield to the event loop after this many entries, so that timers (especially the lease's) run.
 */
export const entriesPerYield = 2048;
/** Number of entries that are inspected before they are yielded to the caller. */
const entriesPerBatch = 64;

interface Named {
  name: string;
  type: EntryType;
}

/**
 * Returns the status of `file` without following links, or undefined if nothing exists there. Throws file
 * system errors.
 */
export function statOf(file: () => string): FileStat | undefined {
  const found = undefinedIfAbsent(() => lstatSync(file()));
  if (found === undefined) return undefined;
  const size = found.isFile() ? found.size : 0;
  return { type: typeOf(found), size, version: null, modifiedAt: found.mtime };
}

/** Returns a file's size in bytes, or undefined if `path` is not a file. Throws file system errors. */
export function sizeOf(path: string): number | undefined {
  const found = lstatSync(path);
  return found.isFile() ? found.size : undefined;
}

/** A single call to `Storage.list`. */
export class Listing {
  readonly #storage: Pick<Storage, 'label'>;
  readonly #handles: DirectoryHandles;
  readonly #options: ListOptions;

  constructor(storage: Pick<Storage, 'label'>, handles: DirectoryHandles, options: ListOptions) {
    this.#storage = storage;
    this.#handles = handles;
    this.#options = options;
  }

  async *entriesBelow(root: Key | ''): AsyncIterable<Entry> {
    let count = 0;
    const pending: (Key | '')[] = [root];
    for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
      const names = this.#namesIn(directory);
      for (let start = 0; start < names.length; start += entriesPerBatch) {
        for (const entry of this.#inspect(directory, names.slice(start, start + entriesPerBatch)))
          if (entry.type === 'directory' && this.#options.recursive) pending.push(entry.key);
          else yield entry;
        count += entriesPerBatch;
        if (count % entriesPerYield === 0) await yieldToEventLoop();
      }
    }
  }

  #namesIn(directory: Key | ''): Named[] {
    const { onUnreadable } = this.#options;
    try {
      const entries = readdirSync(this.#handles.of(directory), { withFileTypes: true });
      if (onUnreadable === undefined || !entries.some(({ name }) => name.includes('\ufffd')))
        return entries.map((entry) => ({ name: entry.name, type: typeOf(entry) }));
      return this.#readableNamesIn(directory, onUnreadable);
    } catch (error) {
      if (isAbsent(error)) return [];
      throw localFailure(this.#storage, directory === '' ? '.' : directory, error);
    }
  }

  /** Reads the names as bytes, because a decoded name does not reveal whether decoding changed it. */
  #readableNamesIn(directory: Key | '', onUnreadable: (unreadable: UnreadableName) => void): Named[] {
    const names: Named[] = [];
    const entries = readdirSync(this.#handles.of(directory), { withFileTypes: true, encoding: 'buffer' });
    for (const entry of entries) {
      const [decoded, type] = [entry.name.toString('utf8'), typeOf(entry)];
      if (isUtf8(entry.name)) names.push({ name: decoded, type });
      else onUnreadable({ reason: 'not_utf8', directory, decoded, escaped: escapedName(entry.name), type });
    }
    return names;
  }

  /** Omits files that were removed after the names were read. */
  #inspect(directory: Key | '', names: readonly Named[]): Entry[] {
    const entries: Entry[] = [];
    const inside = undefinedIfAbsent(() => this.#handles.ofListed(directory));
    if (inside === undefined) return entries;
    for (const { name, type } of names) {
      const key = listedKey(joinKey(directory, name));
      const found = type === 'file' ? this.#fileAt(key, `${inside}/${name}`) : { size: 0 };
      if (found !== undefined) entries.push({ key, type, ...found });
    }
    return entries;
  }

  /** Returns undefined if the file has been removed. */
  #fileAt(key: Key, file: string): Pick<Entry, 'size' | 'stamp' | 'identity'> | undefined {
    try {
      if (this.#options.stamps !== true) {
        const { size, dev: device, ino: inode } = lstatSync(file);
        return { size, identity: { device, inode } };
      }
      const found = lstatSync(file, { bigint: true });
      const identity = { device: Number(found.dev), inode: Number(found.ino) };
      return { size: Number(found.size), identity, stamp: stampOf(found) };
    } catch (error) {
      if (isAbsent(error)) return undefined;
      throw localFailure(this.#storage, key, error);
    }
  }
}

/** Includes the inode change time, to detect changed files whose modification time was reset. */
function stampOf({ size, mtimeNs, ctimeNs, ino, mtime }: BigIntStats): Stamp {
  return { id: `${size}-${mtimeNs}-${ctimeNs}-${ino}`, modifiedAt: mtime, isExact: false };
}

function typeOf(found: Pick<Stats, 'isFile' | 'isDirectory' | 'isSymbolicLink'>): EntryType {
  if (found.isFile()) return 'file';
  if (found.isDirectory()) return 'directory';
  return found.isSymbolicLink() ? 'link' : 'other';
}

const removalsPerYield = 512;
const maxRounds = 10;

/**
 * Removes a directory with all its entries. A link is removed, not followed. Entries that vanish in the
 * meantime are ignored. Uses synchronous calls, like the rest of this module, because an attempt's staging
 * directory has an entry for each file that it replaced. Keeps each directory open while emptying it. Throws
 * system errors as reported by Node.js.
 */
export async function removeTreeAt(handles: DirectoryHandles, directory: Key): Promise<void> {
  await removeBelow(() => handles.at(directory), { entries: 0 });
}

/**
 * Calls `pathOf` again after each pause, because the parent directory may have been closed. A process that
 * still writes to the directory cannot keep it alive: after a few rounds, its writes fail.
 */
async function removeBelow(
  pathOf: () => string,
  count: { entries: number },
  rounds = maxRounds,
): Promise<void> {
  const directory = undefinedIfAbsent(() => openAt(pathOf()));
  if (directory !== undefined)
    try {
      for (const entry of readdirSync(directory.path, { withFileTypes: true })) {
        const path = `${directory.path}/${entry.name}`;
        if (entry.isDirectory()) await removeBelow(() => path, count);
        else undefinedIfAbsent(() => unlinkSync(path));
        count.entries += 1;
        if (count.entries % removalsPerYield === 0) await yieldToEventLoop();
      }
    } finally {
      closeSync(directory.descriptor);
    }
  try {
    removeOne(pathOf);
  } catch (error) {
    if (errnoOf(error) !== 'ENOTEMPTY' || rounds === 1) throw error;
    await removeBelow(pathOf, count, rounds - 1);
  }
}

function openAt(path: string): ReturnType<typeof openDirectory> {
  return openDirectory(path, path);
}

/** Removes an empty directory, or any entry with which another user has replaced it. */
function removeOne(pathOf: () => string): void {
  try {
    rmdirSync(pathOf());
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOTDIR') undefinedIfAbsent(() => unlinkSync(pathOf()));
    else if (errno !== 'ENOENT') throw error;
  }
}

/**
 * Removes a directory that contains only empty directories at any depth. Returns false if it contains
 * anything else.
 */
export function removedIfEmpty(handles: DirectoryHandles, directory: Key): boolean {
  for (const entry of readdirSync(handles.of(directory), { withFileTypes: true }))
    if (!entry.isDirectory() || !removedIfEmpty(handles, joinKey(directory, entry.name))) return false;
  rmdirSync(handles.at(directory));
  return true;
}

/**
 * Removes an empty directory. Returns false if it is not empty. Throws ENOENT if there is no such directory.
 */
export function removedAsEmpty(handles: DirectoryHandles, directory: Key): boolean {
  try {
    rmdirSync(handles.at(directory));
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') throw error;
    return false;
  }
}

/** Removes a scratch file if possible. */
export function removeIfThere(handles: DirectoryHandles, key: Key): void {
  try {
    unlinkSync(handles.at(key));
  } catch {
    // The file was moved or never written. A file that cannot be removed is swept by the next publisher.
  }
}
