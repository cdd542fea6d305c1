import { isUtf8 } from 'node:buffer';
import { lstatSync, readdirSync, type BigIntStats, type Stats } from 'node:fs';
import { setImmediate as breathe } from 'node:timers/promises';
import { escapedName } from '../../lib/text.ts';
import { joinKey, listedKey, type Key } from '../key.ts';
import type { DirectoryHandles } from './handles.ts';
import type { Entry, EntryType, FileStat, Stamp, UnreadableName } from '../storage.ts';
import { isAbsent, unlessAbsent } from './errors.ts';

/** Long loops yield to the event loop after this many entries, so that timers (above all the lease's) run. */
export const entriesPerBreath = 2048;
/** This many entries are looked at before the caller gets them. */
const entriesPerLook = 64;

interface Named {
  name: string;
  type: EntryType;
}

type Fail = (key: string, error: unknown) => Error;

/** What is at `file`, links not followed; undefined if nothing is. Throws what the file system throws. */
export function statOf(file: () => string): FileStat | undefined {
  const found = unlessAbsent(() => lstatSync(file()));
  if (found === undefined) return undefined;
  const size = found.isFile() ? found.size : 0;
  return { type: typeOf(found), size, version: null, modifiedAt: found.mtime };
}

/** The size of a file; undefined if something else is at `path`. Throws what the file system throws. */
export function sizeOf(path: string): number | undefined {
  const found = lstatSync(path);
  return found.isFile() ? found.size : undefined;
}

/** As `Storage.list`. Throws what `fail` makes of the error of a directory, which is `.` for the root. */
export async function* entriesBelow(
  directory: Key | '',
  {
    handles,
    fail,
    isRecursive,
    onUnreadable,
    stamps = false,
  }: {
    handles: DirectoryHandles;
    fail: Fail;
    isRecursive: boolean;
    onUnreadable: ((unreadable: UnreadableName) => void) | undefined;
    stamps?: boolean | undefined;
  },
): AsyncIterable<Entry> {
  let count = 0;
  const pending: (Key | '')[] = [directory];
  for (let current = pending.pop(); current !== undefined; current = pending.pop()) {
    const named = entriesOf(current);
    for (let start = 0; start < named.length; start += entriesPerLook) {
      for (const entry of looked(current, named.slice(start, start + entriesPerLook)))
        if (entry.type === 'directory' && isRecursive) pending.push(entry.key);
        else yield entry;
      count += entriesPerLook;
      if (count % entriesPerBreath === 0) await breathe();
    }
  }

  /** Without the files that were removed since they were listed. */
  function looked(each: Key | '', named: readonly Named[]): Entry[] {
    const entries: Entry[] = [];
    const inside = unlessAbsent(() => handles.ofListed(each));
    if (inside === undefined) return entries;
    for (const { name, type } of named) {
      const key = listedKey(joinKey(each, name));
      const found = type === 'file' ? fileAt(key, `${inside}/${name}`) : { size: 0 };
      if (found !== undefined) entries.push({ key, type, ...found });
    }
    return entries;
  }

  function entriesOf(each: Key | ''): Named[] {
    try {
      const entries = readdirSync(handles.of(each), { withFileTypes: true });
      if (onUnreadable === undefined || !entries.some(({ name }) => name.includes('\ufffd')))
        return entries.map((entry) => ({ name: entry.name, type: typeOf(entry) }));
      return readable(each, onUnreadable);
    } catch (error) {
      if (isAbsent(error)) return [];
      throw fail(each === '' ? '.' : each, error);
    }
  }

  /** Reads the names as bytes, since only those tell what decoding has changed. */
  function readable(each: Key | '', tell: (unreadable: UnreadableName) => void): Named[] {
    const found: Named[] = [];
    for (const entry of readdirSync(handles.of(each), { withFileTypes: true, encoding: 'buffer' })) {
      const [decoded, type] = [entry.name.toString('utf8'), typeOf(entry)];
      if (isUtf8(entry.name)) found.push({ name: decoded, type });
      else tell({ reason: 'not_utf8', directory: each, decoded, escaped: escapedName(entry.name), type });
    }
    return found;
  }

  /** Undefined if the file has been removed since it was listed. */
  function fileAt(key: Key, file: string): Pick<Entry, 'size' | 'stamp' | 'identity'> | undefined {
    try {
      if (!stamps) {
        const { size, dev: device, ino: inode } = lstatSync(file);
        return { size, identity: { device, inode } };
      }
      const found = lstatSync(file, { bigint: true });
      const identity = { device: Number(found.dev), inode: Number(found.ino) };
      return { size: Number(found.size), identity, stamp: stampOf(found) };
    } catch (error) {
      if (isAbsent(error)) return undefined;
      throw fail(key, error);
    }
  }
}

/** The change time of the inode detects a file whose modification time was set back. */
function stampOf({ size, mtimeNs, ctimeNs, ino, mtime }: BigIntStats): Stamp {
  return { id: `${size}-${mtimeNs}-${ctimeNs}-${ino}`, modifiedAt: mtime, isExact: false };
}

function typeOf(found: Pick<Stats, 'isFile' | 'isDirectory' | 'isSymbolicLink'>): EntryType {
  if (found.isFile()) return 'file';
  if (found.isDirectory()) return 'directory';
  return found.isSymbolicLink() ? 'link' : 'other';
}
