import { createHash } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { lstat, readdir, stat, statfs } from 'node:fs/promises';
import path from 'node:path';

/** A directory and all below it: what they look like, and a call when that may have changed. */
export interface WatchedTree {
  /**
   * What the tree looks like: a digest of the names, sizes, times and inodes of its files, and of the names
   * of its directories. Null if the directory is not there or cannot be read. Watches every directory before
   * it reads it, so that whatever changes after this look is noticed.
   */
  look(): Promise<string | null>;
  /**
   * Why the last look failed, or why changes are not noticed, so that only looking again finds them; null if
   * all is well.
   */
  readonly trouble: string | null;
  /** Tries to watch again at the next look, if it could not. */
  retry(): void;
  close(): void;
}

export interface WatchedTreeOptions {
  /** Called for each change that is noticed. Must not throw. */
  onChange: () => void;
  /** Only tests of what no file system can be made to do pass their own. */
  watchDirectory?: typeof watch;
  fileSystemOf?: (directory: string) => Promise<number>;
}

interface Watched {
  /** Device and inode: another directory of the same name needs another watch. */
  identity: string;
  watcher: FSWatcher;
}

/**
 * One watch for each directory, as inotify has them, and none for files, of which there may be a hundred
 * thousand. (chokidar takes one for each file, and so does a recursive watch of Node.js on Linux.)
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
        // A directory that was moved or removed takes its watches along, and another may be in its place.
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
      // One that went away meanwhile is noticed above it; a limit of the system is for good.
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
      // What is reported late must not watch again.
      unwatched = 'closed';
    },
  };
}

/** Throws if the root is no directory that can be read; what vanishes below it meanwhile is passed over. */
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

/** As Linux numbers them: nfs, cifs, smb, smb2, 9p, fuse, ceph, afs, ocfs2, gfs2. */
const remote = new Set([
  0x6969, 0xff534d42, 0x517b, 0xfe534d42, 0x01021997, 0x65735546, 0x00c36400, 0x5346414f, 0x7461636f,
  0x01161970,
]);

export function isRemote(type: number): boolean {
  return process.platform === 'linux' && remote.has(type >>> 0);
}
