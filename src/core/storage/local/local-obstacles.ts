import { accessSync, constants, lstatSync, readFileSync, statfsSync, type Stats } from 'node:fs';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { WaybillError } from '../../lib/errors.ts';
import { ancestorsOf } from '../../lib/paths.ts';
import { isAbsent, undefinedIfAbsent } from '../../lib/system-errors.ts';
import { joinKey, type Key, listedKey, nameOf, parentOf } from '../key.ts';
import type { Change, Storage } from '../storage.ts';
import { localFailure, noRoom, notADirectory, otherFileSystem } from '../storage-errors.ts';
import type { DirectoryHandles } from './local-directories.ts';

const keysPerYield = 1024;
/**
 * On some file systems, names must be shorter than the usual 255 bytes, but this is short enough for all of
 * them.
 */
const shortNameBytes = 100;

/**
 * The file systems on which a file takes up at least its size in bytes, by the `f_type` from statfs(2).
 * Others may compress data, so it makes no sense to compare their free space with file sizes.
 */
const countsBytes = new Set([
  0xef53, // ext2, ext3, ext4
  0x58465342, // xfs
  0x01021994, // tmpfs
  0x4d44, // vfat
  0x2011bab0, // exfat
]);
/** The file systems that have a fixed number of inodes. */
const countsInodes = new Set([0xef53, 0x01021994]);

/** The file systems that accept all names of up to 255 bytes and all paths of up to 4,096 bytes. */
const takesEveryName = new Set([0xef53, 0x58465342, 0x01021994]);
/**
 * For paths with fewer UTF-16 code units, there is no need to count bytes. There are at most three per unit.
 */
const shortPathUnits = 1_000;

/**
 * Implements `Storage.obstacleTo`. The root is not checked here, because that was done when the storage was
 * opened.
 */
export async function localObstacle(
  storage: Pick<Storage, 'label'>,
  handles: DirectoryHandles,
  { writes, removes, from, bytes }: Change,
): Promise<WaybillError | null> {
  const start = deepestExisting(handles, from);
  const fileSystem = undefinedIfAbsent(() => statfsSync(handles.entryPath(start.directory)).type);
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
  return bytes === null ? null : lackOfSpace(storage, handles, start.directory, bytes, writes.length);
}

/** Checks a large number of keys, and looks at each directory only once. */
class Inspector {
  readonly #storage: Pick<Storage, 'label'>;
  readonly #handles: DirectoryHandles;
  readonly #from: Key | '';
  /** The file system that the staging directory is on. undefined if nothing exists yet. */
  readonly #device: number | undefined;
  readonly #mounts: ReadonlySet<string>;
  /** Whether all names are fine on the staging file system, except if they or their paths are too long. */
  readonly #takesEveryName: boolean;
  /** The result for each directory: null if there is no problem, and undefined if it does not exist. */
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

  /** Returns what prevents a file from being deleted. A file that does not exist counts as deletable. */
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
    return this.notWritable(deepest) ?? this.#invalidName(key, deepest);
  }

  notWritable(directory: Key | ''): WaybillError | null {
    const known = this.#writable.get(directory);
    if (known !== undefined) return known;
    let error: WaybillError | null = null;
    try {
      accessSync(this.#handles.entryPath(directory), constants.W_OK | constants.X_OK);
    } catch (cause) {
      // A missing root was already checked when the storage was opened.
      if (!isAbsent(cause)) error = localFailure(this.#storage, directory, cause);
    }
    this.#writable.set(directory, error);
    return error;
  }

  /** Returns what is wrong with a directory. A mount is only a problem below the staging directory. */
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
   * Asks the file system whether it accepts the path as a whole, and each long name in the directory in which
   * it would be created.
   */
  #invalidName(key: Key, deepest: Key | ''): WaybillError | null {
    const isShort = key.length <= shortNameBytes / 3 && this.#handles.absolute(key).length <= shortPathUnits;
    if (isShort && this.#takesEveryName) return null;
    const names = key.split('/').filter((name) => Buffer.byteLength(name) > shortNameBytes);
    const paths = names.map((name) => () => this.#handles.entryPath(joinKey(deepest, name)));
    for (const path of [() => this.#handles.absolute(key), ...paths])
      try {
        lstatSync(path());
      } catch (error) {
        if (!isAbsent(error)) return localFailure(this.#storage, key, error);
      }
    return null;
  }
}

/**
 * Returns `directory` if it exists, or else the nearest of its parents that does. Does not go beyond the
 * root.
 */
function deepestExisting(
  handles: DirectoryHandles,
  directory: Key | '',
): { directory: Key | ''; stats: Stats | undefined } {
  for (let each = directory; ; each = parentOf(each)) {
    const stats = lstatIfThere(handles, each);
    if (stats !== undefined || each === '') return { directory: each, stats };
  }
}

/** Returns an error if there is not enough space. Space reserved for root only counts if this is root. */
function lackOfSpace(
  storage: Pick<Storage, 'label'>,
  handles: DirectoryHandles,
  directory: Key | '',
  bytes: number,
  files: number,
): WaybillError | null {
  let found: ReturnType<typeof statfsSync>;
  try {
    found = statfsSync(handles.entryPath(directory));
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
 * Returns the absolute paths of all mounts. A bind mount can have the same device number as its parent
 * directory, but nothing can be renamed across it anyway.
 */
function mountPoints(): Set<string> {
  try {
    const lines = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
    return new Set(lines.map((line) => unescaped(line.split(' ')[4] ?? '')));
  } catch {
    return new Set(); // On other systems, we notice most mounts by their device numbers.
  }
}

/** Decodes octal escapes such as `\040`, which are used for spaces, tabs, newlines, and backslashes. */
function unescaped(text: string): string {
  return text.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)));
}

function lstatIfThere(handles: DirectoryHandles, key: Key | ''): Stats | undefined {
  try {
    return lstatSync(handles.entryPath(key));
  } catch (error) {
    // If a name is too long, that is reported for the key it is a part of.
    if (isAbsent(error) || (error as NodeJS.ErrnoException).code === 'ENAMETOOLONG') return undefined;
    throw error;
  }
}

/**
 * Returns an error if a key's path goes through a symbolic link whose target exists. That target is not below
 * the root, so it must not be deleted. Returns null if there is no link, or if its target does not exist. If
 * the path cannot be inspected, throws the system error.
 */
export function linkAbove(
  storage: Pick<Storage, 'label'>,
  handles: DirectoryHandles,
  key: Key,
): WaybillError | null {
  for (const ancestor of ancestorsOf(key)) {
    const directory = listedKey(ancestor);
    const found = undefinedIfAbsent(() => lstatSync(handles.entryPath(directory)));
    if (found?.isSymbolicLink() !== true) continue;
    const hasTarget = lstatSync(handles.absolute(key), { throwIfNoEntry: false }) !== undefined;
    return hasTarget ? notADirectory(storage, directory, { isLink: true }) : null;
  }
  return null;
}
