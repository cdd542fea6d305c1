import { createHash } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { lstat, readdir, stat, statfs } from 'node:fs/promises';
import path from 'node:path';

export interface WatchedTreeOptions {
  /** Called for each detected change. Must not throw. */
  onChange: () => void;
  /** Replaced only by tests of unusual file system behavior. */
  watchDirectory?: typeof watch;
  fileSystemOf?: (directory: string) => Promise<number>;
}

interface Watched {
  /** Device and inode, because a different directory with the same name needs a new watch. */
  identity: string;
  watcher: FSWatcher;
}

/**
 * Computes the state of a directory and everything below it, and calls back on possible changes. Uses one
 * watch per directory, like inotify, and none per file, because there may be 100,000 files. chokidar and
 * Node.js's recursive watch on Linux use one per file.
 */
export class WatchedTree {
  readonly #root: string;
  readonly #onChange: () => void;
  readonly #watchDirectory: typeof watch;
  readonly #fileSystemOf: (directory: string) => Promise<number>;
  readonly #watches = new Map<string, Watched>();
  /** Why directories are not watched, or null if they are. */
  #watchFailure: string | null = null;
  /** Why the tree could not be read, or null if it could. */
  #readFailure: string | null = null;

  constructor(root: string, options: WatchedTreeOptions) {
    this.#root = root;
    this.#onChange = options.onChange;
    this.#watchDirectory = options.watchDirectory ?? watch;
    this.#fileSystemOf = options.fileSystemOf ?? typeOfFileSystem;
  }

  /**
   * Returns the state of the tree: a digest of its files' names, sizes, times and inodes, and of its
   * directories' names. Returns null if the directory is missing or unreadable. Each directory is watched
   * before it is read, so that later changes are detected.
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
      this.#readFailure = messageOf(error);
      return null;
    }
  }

  /**
   * Why the last read failed, or why changes go undetected so that the caller has to poll. null if watching
   * works.
   */
  get failure(): string | null {
    return this.#readFailure ?? this.#watchFailure;
  }

  /** Retries watching on the next read if it failed before. */
  retry(): void {
    this.#watchFailure = null;
  }

  close(): void {
    this.#dropBelow(this.#root);
    // A late event must not start a new watch.
    this.#watchFailure = 'closed';
  }

  #watch(directory: string, identity: string): void {
    if (this.#watchFailure !== null || this.#watches.get(directory)?.identity === identity) return;
    if (this.#watches.has(directory)) this.#dropBelow(directory);
    try {
      const watcher = this.#watchDirectory(directory, { persistent: false }, (event, name) => {
        // A moved or removed directory keeps its watches, and another one may now have its path.
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
      // A directory that was just removed is detected through its parent. A system limit is permanent.
      if (!isGone(error)) this.#stopWatching(messageOf(error));
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
 * Throws if the root is not a readable directory. Ignores entries below it that disappear in the meantime.
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

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function isGone(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR');
}

async function typeOfFileSystem(directory: string): Promise<number> {
  return (await statfs(directory)).type;
}

/** Linux file system type numbers of nfs, cifs, smb, smb2, 9p, fuse, ceph, afs, ocfs2 and gfs2. */
const remote = new Set([
  0x6969, 0xff534d42, 0x517b, 0xfe534d42, 0x01021997, 0x65735546, 0x00c36400, 0x5346414f, 0x7461636f,
  0x01161970,
]);

export function isRemote(type: number): boolean {
  return process.platform === 'linux' && remote.has(type >>> 0);
}
