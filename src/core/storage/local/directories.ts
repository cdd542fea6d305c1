import { closeSync, constants, fstatSync, lstatSync, openSync, readlinkSync } from 'node:fs';
import { makeAllDurable } from '../../lib/sync.ts';
import { isAbsent } from '../../lib/system-errors.ts';
import { type Key, nameOf, parentOf } from '../key.ts';
import type { FileIdentity } from '../storage.ts';

/**
 * Another local user with write access below a root can replace a directory with a symbolic link at any time.
 * A checked path may then lead elsewhere when it is used. A storage therefore keeps its directories open.
 * Each is opened from its parent without following links, and its entries are addressed through the
 * descriptor (`/proc/PID/fd/N/name`), which renames cannot redirect.
 *
 * Without `/proc` (on systems other than Linux), the directories are opened in the same way before each call,
 * and the call then uses the path. A replacement between these two steps is not detected.
 */
const descriptors = process.platform === 'linux' ? descriptorsDirectory() : null;

/** O_PATH, for which Node.js has no name. It does not require permission to list the directory. */
export const pathOnly = process.platform === 'linux' ? 0o10000000 : constants.O_RDONLY;
const directoryFlags = pathOnly | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/**
 * The number of directories that a thread keeps open. A call on a deep directory may also keep its ancestors
 * open.
 */
export const maxOpenDirectories = 64;

interface Handle extends FileIdentity {
  descriptor: number;
  /** A path that leads to the directory. */
  path: string;
}

interface KnownHandle extends Handle {
  directory: Key | '';
  known: Map<Key | '', KnownHandle>;
}

/** All known directories of this thread, least recently used first. */
const open = new Set<KnownHandle>();

/** The directories below one root. Methods throw file system errors, and ENOTDIR for a symbolic link. */
export class DirectoryHandles {
  readonly #root: string;
  readonly #known = new Map<Key | '', KnownHandle>();

  /** `root` is an absolute path whose existing part contains no links. */
  constructor(root: string) {
    this.#root = root;
  }

  /** Returns the plain path of an entry, for use in messages and comparisons only. */
  absolute(key: Key | ''): string {
    return key === '' ? this.#root : `${this.#root}/${key}`;
  }

  /**
   * Returns a path that leads to the entry from its open parent directory. The path is valid until the caller
   * awaits something, and during the next call of this method. System calls that follow links in the last
   * component need O_NOFOLLOW.
   */
  at(key: Key | ''): string {
    return key === '' ? `${this.of('')}/.` : `${this.of(parentOf(key))}/${nameOf(key)}`;
  }

  /** Like `at`, but for the directory itself, which must not be a link. */
  of(directory: Key | ''): string {
    closeUnused();
    return this.#opened(directory).path;
  }

  /** Like `of`, but does not check the name of an open directory. For entries that were listed through it. */
  ofListed(directory: Key | ''): string {
    closeUnused();
    return (this.#known.get(directory) ?? this.#opened(directory)).path;
  }

  /**
   * Opens or reads an entry by path. Unless the entry is missing, skips checking the name of an open
   * directory, which takes as long as opening a small file. The directory may have been moved aside since it
   * was opened, so changes to published names must not use this.
   */
  near<T>(key: Key, work: (path: string) => T): T {
    const known = this.#known.get(parentOf(key));
    if (known === undefined) return work(this.at(key));
    try {
      return work(`${known.path}/${nameOf(key)}`);
    } catch (error) {
      if (!isAbsent(error)) throw error;
      return work(this.at(key));
    }
  }

  /**
   * Returns true if the directory was opened and has not been found missing since. It may have been removed.
   */
  isOpen(directory: Key | ''): boolean {
    return this.#known.has(directory);
  }

  /**
   * Returns a token for the open directory with this name, for use with `isStill`, or undefined if none is
   * open.
   */
  opened(directory: Key | ''): object | undefined {
    return this.#known.get(directory);
  }

  /**
   * Returns true if the directory for which `opened` returned the token is open and has not been removed or
   * moved.
   */
  isStill(directory: Key | '', opened: object | undefined): boolean {
    const known = this.#known.get(directory);
    if (known === undefined || known !== opened) return false;
    return fstatSync(known.descriptor).nlink > 0 && this.#isCurrent(known);
  }

  /** Makes the content of files and the names in directories durable. */
  async makeDurable(files: readonly Key[], directories: Iterable<Key | ''> = []): Promise<void> {
    const paths = {
      file: (file: Key | '') => this.at(file),
      directory: (directory: Key | '') => this.of(directory),
      parentOf: (file: Key | '') => (file === '' ? '' : parentOf(file)),
    };
    await makeAllDurable<Key | ''>(paths, files, directories);
  }

  /**
   * Closes a directory that was moved, and its subdirectories, because their names now lead to other entries.
   */
  moved(directory: Key): void {
    for (const handle of this.#known.values())
      if (handle.directory === directory || handle.directory.startsWith(`${directory}/`)) forget(handle);
  }

  close(): void {
    for (const handle of this.#known.values()) forget(handle);
  }

  #opened(directory: Key | ''): KnownHandle {
    const known = this.#known.get(directory);
    if (known !== undefined && this.#isCurrent(known)) {
      open.delete(known);
      open.add(known);
      return known;
    }
    if (known !== undefined) forget(known);
    const from = directory === '' ? this.#root : this.#pathFromParent(directory);
    const opened = openDirectory(from, this.absolute(directory));
    const handle = { ...opened, directory, known: this.#known };
    this.#known.set(directory, handle);
    open.add(handle);
    return handle;
  }

  #pathFromParent(directory: Key): string {
    return `${this.#opened(parentOf(directory)).path}/${nameOf(directory)}`;
  }

  /**
   * Returns true if the name still leads to the open directory. A process that removes a directory first
   * moves it aside, and later writes must fail. The inode number of an open directory is not reused.
   */
  #isCurrent({ directory, inode, device }: KnownHandle): boolean {
    try {
      const found = lstatSync(this.absolute(directory), { throwIfNoEntry: false });
      return found?.ino === inode && found.dev === device;
    } catch {
      return false;
    }
  }
}

/** Opens a directory. `absolute` is its plain path. Throws ENOTDIR for a link or any other kind of entry. */
export function openDirectory(from: string, absolute: string): Handle {
  const descriptor = openSync(from, directoryFlags);
  try {
    const { ino: inode, dev: device } = fstatSync(descriptor);
    return { descriptor, inode, device, path: openPath(descriptor, absolute) };
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

/** Returns a path to an open file or directory. `absolute` is its plain path. */
export function openPath(descriptor: number, absolute: string): string {
  return descriptors === null ? absolute : `${descriptors}${descriptor}`;
}

/** Returns the path with this process's id, which resolves faster than `self`, or null without `/proc`. */
function descriptorsDirectory(): string | null {
  try {
    const self = readlinkSync('/proc/self');
    return self === `${process.pid}` ? `/proc/${self}/fd/` : null;
  } catch {
    return null;
  }
}

/** Closes the least recently used handles, but never the most recent one. */
function closeUnused(): void {
  if (open.size <= maxOpenDirectories) return;
  for (const handle of open) {
    if (open.size <= maxOpenDirectories) return;
    forget(handle);
  }
}

function forget(handle: KnownHandle): void {
  open.delete(handle);
  handle.known.delete(handle.directory);
  closeSync(handle.descriptor);
}
