import { closeSync, constants, fstatSync, lstatSync, openSync, readlinkSync } from 'node:fs';
import { makeAllDurable } from '../../lib/sync.ts';
import { isAbsent } from '../../lib/system-errors.ts';
import { type Key, nameOf, parentOf } from '../key.ts';
import type { FileIdentity } from '../storage.ts';

/**
 * Any local user who can write to a directory below the root can replace it with a symbolic link at any time.
 * Even if a path has been checked, it may point somewhere else by the time it is used. Storages therefore
 * keep their directories open. Each directory is opened through its parent, without following links. Its
 * entries are then addressed through the file descriptor (`/proc/PID/fd/N/name`), which is not affected by
 * renames.
 *
 * On systems without `/proc`, which means anything but Linux, directories are opened in the same way before
 * each call, but the call itself then has to use the path. If a directory is replaced between these two
 * steps, it goes unnoticed.
 */
const descriptors = process.platform === 'linux' ? descriptorsDirectory() : null;

/** This is O_PATH, which has no name in Node.js. It works even without permission to list the directory. */
export const openPathOnly = process.platform === 'linux' ? 0o10000000 : constants.O_RDONLY;
const directoryFlags = openPathOnly | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/**
 * The maximum number of directories that each thread keeps open. A call that involves a deep directory may
 * also keep the directories above it open.
 */
export const maxOpenDirectories = 64;

interface Handle extends FileIdentity {
  descriptor: number;
  /** A path that leads to the directory through its descriptor. */
  path: string;
}

interface KnownHandle extends Handle {
  directory: Key | '';
  known: Map<Key | '', KnownHandle>;
}

/** All directories that this thread has open, least recently used first. */
const open = new Set<KnownHandle>();

/**
 * The open directories below a root. Methods throw file system errors, and ENOTDIR if there is a symbolic
 * link.
 */
export class DirectoryHandles {
  readonly #root: string;
  readonly #known = new Map<Key | '', KnownHandle>();

  /** `root` must be an absolute path. The part of it that exists must not contain any links. */
  constructor(root: string) {
    this.#root = root;
  }

  /** Returns the regular path of an entry. Only use it for messages and comparisons. */
  absolute(key: Key | ''): string {
    return key === '' ? this.#root : `${this.#root}/${key}`;
  }

  /**
   * Returns a path to the entry that goes through its open parent directory. It is only valid until the
   * caller awaits something, or until the call after the next one of this method. System calls that would
   * follow a link at the end of the path need O_NOFOLLOW.
   */
  entryPath(key: Key | ''): string {
    return key === '' ? `${this.directoryPath('')}/.` : `${this.directoryPath(parentOf(key))}/${nameOf(key)}`;
  }

  /** Like `entryPath`, but returns a path to the directory itself, which must not be a link. */
  directoryPath(directory: Key | ''): string {
    closeUnused();
    return this.#opened(directory).path;
  }

  /**
   * Like `directoryPath`, but does not check that the open directory still has its name. Meant for entries
   * that were listed through it.
   */
  knownDirectoryPath(directory: Key | ''): string {
    closeUnused();
    return (this.#known.get(directory) ?? this.#opened(directory)).path;
  }

  /**
   * Opens or reads an entry by its path. Does not check that the open directory still has its name, unless
   * the entry seems to be missing, because that takes as long as opening a small file. The directory may have
   * been moved out of the way in the meantime, so do not use this to change published names.
   */
  withEntryPath<T>(key: Key, work: (path: string) => T): T {
    const known = this.#known.get(parentOf(key));
    if (known === undefined) return work(this.entryPath(key));
    try {
      return work(`${known.path}/${nameOf(key)}`);
    } catch (error) {
      if (!isAbsent(error)) throw error;
      return work(this.entryPath(key));
    }
  }

  /**
   * Returns true if the directory has been opened, and has not been found missing since. It may be gone
   * anyway.
   */
  isOpen(directory: Key | ''): boolean {
    return this.#known.has(directory);
  }

  /**
   * Returns an object that identifies the open directory with this name, for use with `isUnchanged`. Returns
   * undefined if it is not open.
   */
  identityToken(directory: Key | ''): object | undefined {
    return this.#known.get(directory);
  }

  /**
   * Returns true if this directory is still the one for which `identityToken` returned the object, which
   * means that it has not been deleted or moved.
   */
  isUnchanged(directory: Key | '', opened: object | undefined): boolean {
    const known = this.#known.get(directory);
    if (known === undefined || known !== opened) return false;
    return fstatSync(known.descriptor).nlink > 0 && this.#isCurrent(known);
  }

  /** Flushes the contents of files, and the names in directories, to disk. */
  async makeDurable(files: readonly Key[], directories: Iterable<Key | ''> = []): Promise<void> {
    const paths = {
      file: (file: Key | '') => this.entryPath(file),
      directory: (directory: Key | '') => this.directoryPath(directory),
      parentOf: (file: Key | '') => (file === '' ? '' : parentOf(file)),
    };
    await makeAllDurable<Key | ''>(paths, files, directories);
  }

  /**
   * Closes a directory that was moved, and everything below it, since their names now refer to something
   * else.
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
   * Returns true if the name still refers to the open directory. When a process deletes a directory, it moves
   * it out of the way first, and writes by other processes must fail from then on. As long as the directory
   * is open, its inode number is not used for anything else.
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

/** Opens a directory. `absolute` is its regular path. Throws ENOTDIR if it is a link, or anything else. */
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

/** Returns a path to an open file or directory. `absolute` is its regular path. */
export function openPath(descriptor: number, absolute: string): string {
  return descriptors === null ? absolute : `${descriptors}${descriptor}`;
}

/**
 * Returns the path of this process's descriptors, or null if there is no `/proc`. Using the process id is
 * faster than using `self`.
 */
function descriptorsDirectory(): string | null {
  try {
    const self = readlinkSync('/proc/self');
    return self === `${process.pid}` ? `/proc/${self}/fd/` : null;
  } catch {
    return null;
  }
}

/** Closes the handles that have not been used for the longest time. The latest one always stays open. */
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
