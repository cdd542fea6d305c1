import { accessSync, constants, lstatSync, readFileSync, statfsSync, type Stats } from 'node:fs';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { WaybillError } from '../../lib/errors.ts';
import { ancestorsOf } from '../../lib/paths.ts';
import { isAbsent, undefinedIfAbsent } from '../../lib/system-errors.ts';
import { localFailure, noRoom, notADirectory, otherFileSystem } from '../errors.ts';
import { joinKey, type Key, listedKey, nameOf, parentOf } from '../key.ts';
import type { Change, Storage } from '../storage.ts';
import type { DirectoryHandles } from './directories.ts';

const keysPerYield = 1024;
/** Some file systems allow fewer than the usual 255 bytes per name, but none allows fewer than this. */
const shortNameBytes = 100;

/**
 * File systems, by the `f_type` of statfs(2), on which a file occupies at least its size in bytes. Others may
 * compress data, so their free space cannot be compared with file sizes.
 */
const countsBytes = new Set([
  0xef53, // ext2, ext3, ext4
  0x58465342, // xfs
  0x01021994, // tmpfs
  0x4d44, // vfat
  0x2011bab0, // exfat
]);
/** The file systems with a fixed number of inodes. */
const countsInodes = new Set([0xef53, 0x01021994]);

/** The file systems that accept any name of up to 255 bytes and any path of up to 4,096 bytes. */
const takesEveryName = new Set([0xef53, 0x58465342, 0x01021994]);
/** A path with fewer UTF-16 code units has at most three times as many bytes. */
const shortPathUnits = 1_000;

/** Implements `Storage.obstacleTo`. Skips the root, which was checked when the storage was opened. */
export async function localObstacle(
  storage: Pick<Storage, 'label'>,
  handles: DirectoryHandles,
  { writes, removes, from, bytes }: Change,
): Promise<WaybillError | null> {
  const start = deepestExisting(handles, from);
  const fileSystem = undefinedIfAbsent(() => statfsSync(handles.at(start.directory)).type);
  const seen = new Inspector(storage, handles, from, start.stats, takesEveryName.has(fileSystem ?? 0));
  const atStart = seen.notWritable(start.directory);
  if (atStart !== null) return atStart;
  let count = 0;
  for (const [keys, look] of [
    [writes, (key: Key) => seen.obstacleToWriting(key)],
    [removes, (key: Key) => seen.obstacleToRemoving(key)],
  ] as const)
    for (const key of keys) {
      const found = look(key);
      if (found !== null) return found;
      count += 1;
      if (count % keysPerYield === 0) await yieldToEventLoop();
    }
  return bytes === null ? null : lackOfRoom(storage, handles, start.directory, bytes, writes.length);
}

/** Inspects many keys, visiting each directory only once. */
class Inspector {
  readonly #storage: Pick<Storage, 'label'>;
  readonly #handles: DirectoryHandles;
  readonly #from: Key | '';
  /** The file system of the staging directory, or undefined if nothing exists yet. */
  readonly #device: number | undefined;
  readonly #mounts: ReadonlySet<string>;
  /** Whether the staging file system refuses only names and paths that are too long. */
  readonly #takesEveryName: boolean;
  /**
   * Findings by directory. A finding is null if there is no problem, and undefined if the directory does not
   * exist.
   */
  readonly #directories = new Map<string, WaybillError | null | undefined>();
  readonly #writable = new Map<string, WaybillError | null>();

  constructor(
    storage: Pick<Storage, 'label'>,
    handles: DirectoryHandles,
    from: Key | '',
    start: Stats | undefined,
    takesEveryName: boolean,
  ) {
    this.#storage = storage;
    this.#handles = handles;
    this.#from = from;
    this.#device = start?.dev;
    this.#mounts = mountPoints();
    this.#takesEveryName = takesEveryName;
  }

  /** Returns the obstacle to removing a file. A missing file or parent directory is not an obstacle. */
  obstacleToRemoving(key: Key): WaybillError | null {
    const link = linkAbove(this.#storage, this.#handles, key);
    if (link !== null || lstatIfThere(this.#handles, key) === undefined) return link;
    return this.notWritable(parentOf(key));
  }

  obstacleToWriting(key: Key): WaybillError | null {
    let deepest: Key | '' = '';
    for (const ancestor of ancestorsOf(key)) {
      const found = this.#obstacleAt(ancestor as Key);
      if (found !== null && found !== undefined) return found;
      if (found === undefined) break;
      deepest = ancestor as Key;
    }
    if (this.#mounts.has(this.#handles.absolute(key))) return otherFileSystem(this.#storage, key);
    return this.notWritable(deepest) ?? this.#nameRefused(key, deepest);
  }

  notWritable(directory: Key | ''): WaybillError | null {
    const known = this.#writable.get(directory);
    if (known !== undefined) return known;
    let error: WaybillError | null = null;
    try {
      accessSync(this.#handles.at(directory), constants.W_OK | constants.X_OK);
    } catch (cause) {
      // A missing root was checked when the storage was opened.
      if (!isAbsent(cause))
        error = localFailure(this.#storage, directory === '' ? 'the root' : directory, cause);
    }
    this.#writable.set(directory, error);
    return error;
  }

  /** Returns the obstacle at a directory. A mount is an obstacle only below the staging directory. */
  #obstacleAt(directory: Key): WaybillError | null | undefined {
    if (this.#directories.has(directory)) return this.#directories.get(directory);
    const found = lstatIfThere(this.#handles, directory);
    const isBelow = this.#from === '' || directory.startsWith(`${this.#from}/`);
    const isMount =
      found !== undefined &&
      (found.dev !== this.#device || this.#mounts.has(this.#handles.absolute(directory)));
    const error =
      found === undefined
        ? undefined
        : !found.isDirectory()
          ? notADirectory(this.#storage, directory, { isLink: found.isSymbolicLink() })
          : isBelow && isMount
            ? otherFileSystem(this.#storage, directory)
            : null;
    this.#directories.set(directory, error);
    return error;
  }

  /**
   * Checks the whole path against the file system, and each long name in the directory where it would be
   * created.
   */
  #nameRefused(key: Key, deepest: Key | ''): WaybillError | null {
    const isShort = key.length <= shortNameBytes / 3 && this.#handles.absolute(key).length <= shortPathUnits;
    if (isShort && this.#takesEveryName) return null;
    const names = key.split('/').filter((name) => Buffer.byteLength(name) > shortNameBytes);
    const paths = names.map((name) => () => this.#handles.at(joinKey(deepest, name)));
    for (const path of [() => this.#handles.absolute(key), ...paths])
      try {
        lstatSync(path());
      } catch (error) {
        if (!isAbsent(error)) return localFailure(this.#storage, key, error);
      }
    return null;
  }
}

/** Returns `directory` or its nearest existing parent, at most up to the root. */
function deepestExisting(
  handles: DirectoryHandles,
  directory: Key | '',
): { directory: Key | ''; stats: Stats | undefined } {
  for (let each = directory; ; each = parentOf(each)) {
    const stats = lstatIfThere(handles, each);
    if (stats !== undefined || each === '') return { directory: each, stats };
  }
}

/** Reports a lack of space. Space reserved for the superuser counts only if this process is the superuser. */
function lackOfRoom(
  storage: Pick<Storage, 'label'>,
  handles: DirectoryHandles,
  directory: Key | '',
  bytes: number,
  files: number,
): WaybillError | null {
  let found: ReturnType<typeof statfsSync>;
  try {
    found = statfsSync(handles.at(directory));
  } catch (error) {
    if (isAbsent(error)) return null;
    throw localFailure(storage, nameOf(directory), error);
  }
  const free = (process.geteuid?.() === 0 ? found.bfree : found.bavail) * found.bsize;
  if (countsBytes.has(found.type) && bytes > free) return noRoom(storage, { bytes, free });
  if (countsInodes.has(found.type) && found.files > 0 && files > found.ffree)
    return noRoom(storage, { files, free: found.ffree });
  return null;
}

/**
 * Returns the absolute paths of mounts. A bind mount may have the same device number as its parent directory,
 * but renames into it still fail.
 */
function mountPoints(): Set<string> {
  try {
    const lines = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
    return new Set(lines.map((line) => unescaped(line.split(' ')[4] ?? '')));
  } catch {
    return new Set(); // On other systems, device numbers still reveal most mounts.
  }
}

/** Decodes spaces, tabs, newlines and backslashes, which are written as octal escapes such as `\040`. */
function unescaped(text: string): string {
  return text.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)));
}

function lstatIfThere(handles: DirectoryHandles, key: Key | ''): Stats | undefined {
  try {
    return lstatSync(handles.at(key));
  } catch (error) {
    // A name that is too long is reported for the key that contains it.
    if (isAbsent(error) || (error as NodeJS.ErrnoException).code === 'ENAMETOOLONG') return undefined;
    throw error;
  }
}

/**
 * Returns the error for a key whose path leads through a symbolic link to something that exists. The target
 * is not below the root and must not be removed. Returns null if there is no link on the path, or if the link
 * is dangling. Throws the system error if the path cannot be inspected.
 */
export function linkAbove(
  storage: Pick<Storage, 'label'>,
  handles: DirectoryHandles,
  key: Key,
): WaybillError | null {
  for (const ancestor of ancestorsOf(key)) {
    const directory = listedKey(ancestor);
    const found = undefinedIfAbsent(() => lstatSync(handles.at(directory)));
    if (found?.isSymbolicLink() !== true) continue;
    const hasTarget = lstatSync(handles.absolute(key), { throwIfNoEntry: false }) !== undefined;
    return hasTarget ? notADirectory(storage, directory, { isLink: true }) : null;
  }
  return null;
}
