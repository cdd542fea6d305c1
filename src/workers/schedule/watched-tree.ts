import { createHash } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { lstat, readdir, stat, statfs } from 'node:fs/promises';
import path from 'node:path';

/** The state of a directory and everything below it, with a callback for possible changes. */
export interface WatchedTree {
  /**
   * The state of the tree: a digest of the names, sizes, times and inodes of its files, and of its
   * directories' names. null if the directory is missing or unreadable. Each directory is watched before it
   * is read, so that later changes are noticed.
   */
  look(): Promise<string | null>;
  /**
   * Why the last look failed, or why changes go unnoticed, so that the caller has to poll; null if watching
   * works.
   */
  readonly trouble: string | null;
  /** Retries watching at the next look if it has failed. */
  retry(): void;
  close(): void;
}

export interface WatchedTreeOptions {
  /** Called for each noticed change. Must not throw. */
  onChange: () => void;
  /** Replaced only by tests of rare file system behavior. */
  watchDirectory?: typeof watch;
  fileSystemOf?: (directory: string) => Promise<number>;
}

interface Watched {
  /** Device and inode: another directory with the same name needs a new watch. */
  identity: string;
  watcher: FSWatcher;
}

/**
 * Uses one watch per directory, like inotify, and none per file, because there may be 100,000 files. chokidar
 * and the recursive watch of Node.js on Linux use one per file.
 */
export function watchedTree(root: string, options: WatchedTreeOptions): WatchedTree {
  const { onChange, watchDirectory = watch, fileSystemOf = typeOfFileSystem } = options;
  const watches = new Map<string, Watched>();
  let unwatched: string | null = null;
  let unreadable: string | null = null;

  const drop = (directory: string): void => {
    watches.get(directory)?.watcher.close();
    watches.delete(directory);
  };
  const dropBelow = (directory: string): void => {
    for (const one of [...watches.keys()])
      if (one === directory || one.startsWith(directory + path.sep)) drop(one);
  };
  const giveUp = (reason: string): void => {
    dropBelow(root);
    unwatched = reason;
    onChange();
  };
  const keepWatch = (directory: string, identity: string): void => {
    if (unwatched !== null || watches.get(directory)?.identity === identity) return;
    if (watches.has(directory)) dropBelow(directory);
    try {
      const watcher = watchDirectory(directory, { persistent: false }, (event, name) => {
        // A moved or removed directory keeps its watches, and another one may have its path now.
        if (event === 'rename') {
          const isItself = name === null || name === path.basename(directory);
          const moved = isItself ? directory : path.join(directory, name);
          if (watches.has(moved)) dropBelow(moved);
        }
        onChange();
      });
      watcher.on('error', (error) => giveUp(error.message));
      watches.set(directory, { identity, watcher });
    } catch (error) {
      // A directory that was just removed is noticed at its parent. A limit of the system is permanent.
      if (!isGone(error)) giveUp(messageOf(error));
    }
  };

  return {
    get trouble() {
      return unreadable ?? unwatched;
    },
    async look() {
      try {
        if (watches.size === 0 && unwatched === null && isRemote(await fileSystemOf(root)))
          giveUp('it is on a network file system, which does not report the changes of other hosts');
        const { state, directories } = await lookAt(root, keepWatch);
        for (const known of [...watches.keys()]) if (!directories.has(known)) drop(known);
        unreadable = null;
        return state;
      } catch (error) {
        dropBelow(root);
        unreadable = messageOf(error);
        return null;
      }
    },
    retry() {
      unwatched = null;
    },
    close() {
      dropBelow(root);
      // A late event must not start a watch.
      unwatched = 'closed';
    },
  };
}

/**
 * Throws if the root is not a readable directory. Ignores entries below it that disappear in the meantime.
 */
async function lookAt(
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
      if (entry.isDirectory()) await unlessGone(() => visit(at));
      else await unlessGone(async () => digest.update(await stateOf(at)));
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

async function unlessGone(work: () => Promise<unknown>): Promise<void> {
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

/** Linux numbers of nfs, cifs, smb, smb2, 9p, fuse, ceph, afs, ocfs2 and gfs2. */
const remote = new Set([
  0x6969, 0xff534d42, 0x517b, 0xfe534d42, 0x01021997, 0x65735546, 0x00c36400, 0x5346414f, 0x7461636f,
  0x01161970,
]);

export function isRemote(type: number): boolean {
  return process.platform === 'linux' && remote.has(type >>> 0);
}
