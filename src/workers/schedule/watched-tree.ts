import { createHash } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { lstat, readdir, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { errorMessage } from '../../core/lib/errors.ts';

export interface WatchedTreeOptions {
  /** Called whenever a change is detected. Must not throw. */
  onChange: () => void;
  /** For tests in which the file system misbehaves. */
  watchDirectory?: typeof watch;
  fileSystemOf?: (directory: string) => Promise<number>;
}

interface Watched {
  /**
   * The device and inode. If a directory is replaced by another one with the same name, that one must be
   * watched.
   */
  identity: string;
  watcher: FSWatcher;
}

/**
 * Determines the state of a directory tree, and calls back if it may have changed. It watches directories,
 * but not files, since there can be 100,000 of them. On Linux, inotify only needs one watch per directory,
 * but chokidar and Node.js's recursive mode use one per file.
 */
export class WatchedTree {
  readonly #root: string;
  readonly #onChange: () => void;
  readonly #watchDirectory: typeof watch;
  readonly #fileSystemOf: (directory: string) => Promise<number>;
  readonly #watches = new Map<string, Watched>();
  /** Why the directories are not being watched, or null if they are. */
  #watchFailure: string | null = null;
  /** Why the tree could not be read, or null if it was. */
  #readFailure: string | null = null;

  constructor(root: string, options: WatchedTreeOptions) {
    this.#root = root;
    this.#onChange = options.onChange;
    this.#watchDirectory = options.watchDirectory ?? watch;
    this.#fileSystemOf = options.fileSystemOf ?? typeOfFileSystem;
  }

  /**
   * Returns the state of the tree. It is a digest of the names, sizes, times, and inodes of all files, and of
   * the names of all directories. Returns null if the root does not exist or cannot be read. Each directory
   * is watched before it is read, so that no change gets lost.
   */
  async read(): Promise<string | null> {
    try {
      if (this.#watches.size === 0 && this.#watchFailure === null) {
        if (isRemote(await this.#fileSystemOf(this.#root)))
          this.#stopWatching(
            'it is on a network file system, which does not report the changes of other hosts',
          );
      }
      const { state, directories } = await readTree(this.#root, (directory, identity) =>
        this.#watch(directory, identity),
      );
      for (const watched of [...this.#watches.keys()]) if (!directories.has(watched)) this.#drop(watched);
      this.#readFailure = null;
      return state;
    } catch (error) {
      this.#dropBelow(this.#root);
      this.#readFailure = errorMessage(error);
      return null;
    }
  }

  /**
   * Why the last read failed, or why changes cannot be detected and the caller has to poll. null if
   * everything works.
   */
  get failure(): string | null {
    return this.#readFailure ?? this.#watchFailure;
  }

  /** If watching has failed, tries again at the next read. */
  retry(): void {
    this.#watchFailure = null;
  }

  close(): void {
    this.#dropBelow(this.#root);
    // Do not let a late event start another watch.
    this.#watchFailure = 'closed';
  }

  #watch(directory: string, identity: string): void {
    if (this.#watchFailure !== null || this.#watches.get(directory)?.identity === identity) return;
    if (this.#watches.has(directory)) this.#dropBelow(directory);
    try {
      const watcher = this.#watchDirectory(directory, { persistent: false }, (event, name) => {
        // If a directory is moved or deleted, its watches remain. By now, there may be a different directory
        // at this path.
        if (event === 'rename') {
          const isItself = name === null || name === path.basename(directory);
          const moved = isItself ? directory : path.join(directory, name);
          if (this.#watches.has(moved)) this.#dropBelow(moved);
        }
        this.#onChange();
      });
      watcher.on('error', (error) => this.#stopWatching(error.message));
      this.#watches.set(directory, { identity, watcher });
    } catch (error) {
      // If the directory has just been deleted, we learn about it from its parent. A system limit is
      // permanent.
      if (!isGone(error)) this.#stopWatching(errorMessage(error));
    }
  }

  #stopWatching(reason: string): void {
    this.#dropBelow(this.#root);
    this.#watchFailure = reason;
    this.#onChange();
  }

  #dropBelow(directory: string): void {
    for (const watched of [...this.#watches.keys()])
      if (watched === directory || watched.startsWith(directory + path.sep)) this.#drop(watched);
  }

  #drop(directory: string): void {
    this.#watches.get(directory)?.watcher.close();
    this.#watches.delete(directory);
  }
}

/**
 * Reads the tree. Throws if the root is not a readable directory. Ignores anything below it that disappears
 * in the meantime.
 */
async function readTree(
  root: string,
  enter: (directory: string, identity: string) => void,
): Promise<{ state: string; directories: Set<string> }> {
  const digest = createHash('sha256');
  const directories = new Set<string>();
  const visit = async (directory: string): Promise<void> => {
    const { dev, ino } = await (directory === root ? stat(directory) : lstat(directory));
    enter(directory, `${dev} ${ino}`);
    directories.add(directory);
    const entries = await readdir(directory, { withFileTypes: true });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const at = path.join(directory, entry.name);
      digest.update(`${path.relative(root, at)}\0`);
      if (entry.isDirectory()) await ignoreMissing(() => visit(at));
      else await ignoreMissing(async () => digest.update(await stateOf(at)));
    }
    digest.update('\0');
  };
  await visit(root);
  return { state: digest.digest('hex'), directories };
}

async function stateOf(file: string): Promise<string> {
  const { size, mtimeMs, ino } = await lstat(file);
  return `${size} ${mtimeMs} ${ino}\0`;
}

async function ignoreMissing(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}

function isGone(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR');
}

async function typeOfFileSystem(directory: string): Promise<number> {
  return (await statfs(directory)).type;
}

/**
 * Network file systems, by Linux's type numbers: nfs, cifs, smb, smb2, 9p, fuse, ceph, afs, ocfs2, and gfs2.
 */
const remote = new Set([
  0x6969, 0xff534d42, 0x517b, 0xfe534d42, 0x01021997, 0x65735546, 0x00c36400, 0x5346414f, 0x7461636f,
  0x01161970,
]);

export function isRemote(type: number): boolean {
  return process.platform === 'linux' && remote.has(type >>> 0);
}
