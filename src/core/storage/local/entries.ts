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
import { joinKey, type Key, listedKey } from '../key.ts';
import type { Entry, EntryType, FileStat, ListOptions, Stamp, Storage, UnreadableName } from '../storage.ts';
import { localFailure } from '../storage-errors.ts';
import { ListingLimit, maxDepth } from '../untrusted.ts';
import { type DirectoryHandles, openDirectory } from './local-directories.ts';

/**
 * After this many entries, long loops yield to the event loop, so that timers can run, especially the
 * lease's.
 */
export const entriesPerYield = 2048;
/** Entries are inspected in batches of this size before they are passed on to the caller. */
const entriesPerBatch = 64;

interface Named {
  name: string;
  type: EntryType;
}

/**
 * Returns the status of `file`, or undefined if it does not exist. Does not follow links. Throws file system
 * errors.
 */
export function statOf(file: () => string): FileStat | undefined {
  const found = undefinedIfAbsent(() => lstatSync(file()));
  if (found === undefined) return undefined;
  const size = found.isFile() ? found.size : 0;
  return { type: typeOf(found), size, version: null, modifiedAt: found.mtime };
}

/** Returns the size of a file in bytes, or undefined if `path` is not a file. Throws file system errors. */
export function sizeOf(path: string): number | undefined {
  const found = lstatSync(path);
  return found.isFile() ? found.size : undefined;
}

/** One call to `Storage.list`. */
export class LocalListing {
  readonly #storage: Pick<Storage, 'label'>;
  readonly #handles: DirectoryHandles;
  readonly #options: ListOptions;
  readonly #limit: ListingLimit;

  constructor(storage: Pick<Storage, 'label'>, handles: DirectoryHandles, options: ListOptions) {
    this.#storage = storage;
    this.#handles = handles;
    this.#options = options;
    this.#limit = options.limit ?? new ListingLimit();
  }

  async *entriesBelow(root: Key | ''): AsyncIterable<Entry> {
    let count = 0;
    const pending: (Key | '')[] = [root];
    for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
      this.#limit.enter(this.#storage, directory);
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
      const entries = readdirSync(this.#handles.directoryPath(directory), { withFileTypes: true });
      if (onUnreadable === undefined || !entries.some(({ name }) => name.includes('\ufffd')))
        return entries.map((entry) => ({ name: entry.name, type: typeOf(entry) }));
      return this.#readableNamesIn(directory, onUnreadable);
    } catch (error) {
      if (isAbsent(error)) return [];
      throw localFailure(this.#storage, directory, error);
    }
  }

  /**
   * Reads the names as bytes. After decoding, it is impossible to find out whether a name was valid UTF-8.
   */
  #readableNamesIn(directory: Key | '', onUnreadable: (unreadable: UnreadableName) => void): Named[] {
    const names: Named[] = [];
    const entries = readdirSync(this.#handles.directoryPath(directory), {
      withFileTypes: true,
      encoding: 'buffer',
    });
    for (const entry of entries) {
      const decoded = entry.name.toString('utf8');
      const type = typeOf(entry);
      if (isUtf8(entry.name)) {
        names.push({ name: decoded, type });
        continue;
      }
      const escaped = escapedName(entry.name);
      this.#limit.add(this.#storage, joinKey(directory, escaped));
      onUnreadable({ reason: 'not_utf8', directory, decoded, escaped, type });
    }
    return names;
  }

  /** Inspects entries. Leaves out files that have been deleted since their names were read. */
  #inspect(directory: Key | '', names: readonly Named[]): Entry[] {
    const entries: Entry[] = [];
    const inside = undefinedIfAbsent(() => this.#handles.knownDirectoryPath(directory));
    if (inside === undefined) return entries;
    for (const { name, type } of names) {
      const key = listedKey(joinKey(directory, name));
      this.#limit.add(this.#storage, key);
      const found = type === 'file' ? this.#fileAt(key, `${inside}/${name}`) : { size: 0 };
      if (found !== undefined) entries.push({ key, type, ...found });
    }
    return entries;
  }

  /** Returns undefined if the file has been deleted. */
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

/**
 * The inode change time is part of the id because it reveals changes even if the modification time was reset.
 */
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
 * Deletes a directory and everything in it. If it is a link, only the link is deleted. Entries that disappear
 * in the meantime are ignored. Like everything in this module, it uses synchronous calls, because a staging
 * directory has an entry for each file that was replaced. While a directory is being emptied, it is kept
 * open. Throws system errors, as reported by Node.js, and an error if another user has nested directories
 * deeper than any bundle does.
 */
export async function removeTreeAt(handles: DirectoryHandles, directory: Key): Promise<void> {
  await removeBelow(() => handles.entryPath(directory), { entries: 0 }, { depth: 1, rounds: maxRounds });
}

/**
 * After each pause, calls `pathOf` again, because the parent directory may have been closed. If another
 * process is still writing to the directory, it cannot prevent this from finishing: after a few rounds, its
 * writes fail.
 */
async function removeBelow(
  pathOf: () => string,
  count: { entries: number },
  { depth, rounds }: { depth: number; rounds: number },
): Promise<void> {
  if (depth > maxDepth) throw new Error(`directories are nested deeper than ${maxDepth}`);
  const directory = undefinedIfAbsent(() => openAt(pathOf()));
  if (directory !== undefined)
    try {
      for (const entry of readdirSync(directory.path, { withFileTypes: true })) {
        const path = `${directory.path}/${entry.name}`;
        const below = { depth: depth + 1, rounds: maxRounds };
        if (entry.isDirectory()) await removeBelow(() => path, count, below);
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
    await removeBelow(pathOf, count, { depth, rounds: rounds - 1 });
  }
}

function openAt(path: string): ReturnType<typeof openDirectory> {
  return openDirectory(path, path);
}

/** Deletes an empty directory, or whatever another user has put in its place. */
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
 * Deletes a directory if there is nothing in it but empty directories, up to the depth of the deepest bundle.
 * Returns false if there is anything else in it.
 */
export function removeIfEmpty(handles: DirectoryHandles, directory: Key): boolean {
  if (directory.split('/').length > maxDepth) return false;
  for (const entry of readdirSync(handles.directoryPath(directory), { withFileTypes: true }))
    if (!entry.isDirectory() || !removeIfEmpty(handles, joinKey(directory, entry.name))) return false;
  rmdirSync(handles.entryPath(directory));
  return true;
}

/** Deletes an empty directory. Returns false if it is not empty. Throws ENOENT if it does not exist. */
export function removeEmptyDirectory(handles: DirectoryHandles, directory: Key): boolean {
  try {
    rmdirSync(handles.entryPath(directory));
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') throw error;
    return false;
  }
}

/** Deletes a scratch file, if possible. */
export function removeIfThere(handles: DirectoryHandles, key: Key): void {
  try {
    unlinkSync(handles.entryPath(key));
  } catch {
    // It has been moved, or was never written. If it cannot be deleted, the next publisher cleans it up.
  }
}
