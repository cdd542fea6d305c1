import { closeSync, constants, fsync, fsyncSync, openSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { isMainThread } from 'node:worker_threads';
import pMap from 'p-map';
import { errnoOf } from './errors.ts';
import { syncFileSystem } from './file-system-sync.ts';
import { slowCallDetector } from './slow-call-detector.ts';

/**
 * From this many files on, one `syncfs` of their file system replaces an fsync per file: on ext4, 5,000 files
 * of 8 KiB take some 60 ms instead of 800.
 */
const manyFiles = 32;
const syncsAtOnce = 4;
const fsyncInPool = promisify(fsync);
const syncs = slowCallDetector({ slowMs: 20 });

/** The paths of names, each for the next call only; see `DirectoryHandles`. */
export interface PathsOf<Name> {
  file(name: Name): string;
  directory(name: Name): string;
  /** The directory of a file. */
  parentOf(name: Name): Name;
}

const pathsThemselves: PathsOf<string> = {
  file: (file) => file,
  directory: (directory) => directory,
  parentOf: (file) => path.dirname(file),
};

/**
 * Makes the content of all these files durable, and the names in these directories, which are on the file
 * system of the files. Throws system errors as Node.js reports them.
 */
export async function makeDurable(
  files: readonly string[],
  directories: Iterable<string> = [],
): Promise<void> {
  await makeAllDurable(pathsThemselves, files, directories);
}

/** Makes the names in these directories durable. Throws system errors as Node.js reports them. */
export async function syncDirectories(directories: Iterable<string>): Promise<void> {
  await makeDurable([], directories);
}

/** As `makeDurable`, for names that `paths` makes paths of. */
export async function makeAllDurable<Name>(
  paths: PathsOf<Name>,
  files: readonly Name[],
  directories: Iterable<Name> = [],
): Promise<void> {
  const named = [...directories];
  const first = files[0] === undefined ? named[0] : paths.parentOf(files[0]);
  if (first === undefined) return;
  if (files.length + named.length >= manyFiles && (await hasSynced(() => paths.directory(first)))) return;
  await pMap(files, (file) => syncFile(paths.file(file)), { concurrency: syncsAtOnce });
  await pMap(named, (directory) => syncDirectory(() => paths.directory(directory)), {
    concurrency: syncsAtOnce,
  });
}

/** Syncs the file system of an open directory: its name may lead elsewhere by the time the shell looks. */
async function hasSynced(directory: () => string): Promise<boolean> {
  if (process.platform !== 'linux') return false;
  let opened: number;
  try {
    opened = openSync(directory(), constants.O_RDONLY | constants.O_DIRECTORY);
  } catch {
    return false; // Reported with the first name that is synced.
  }
  try {
    return await syncFileSystem(`/proc/${process.pid}/fd/${opened}`);
  } finally {
    closeSync(opened);
  }
}

async function syncFile(file: string): Promise<void> {
  const opened = openSync(file, constants.O_RDWR | constants.O_NOFOLLOW);
  try {
    await flush(opened);
  } finally {
    closeSync(opened);
  }
}

/**
 * A directory that has been removed meanwhile has no names to keep, and some file systems cannot sync
 * directories (EINVAL).
 */
async function syncDirectory(directory: () => string): Promise<void> {
  let opened: number | undefined;
  try {
    opened = openSync(directory(), constants.O_RDONLY | constants.O_DIRECTORY);
    await flush(opened);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno !== 'ENOENT' && errno !== 'ENOTDIR' && errno !== 'EINVAL' && errno !== 'ENOTSUP') throw error;
  } finally {
    if (opened !== undefined) closeSync(opened);
  }
}

/**
 * The whole process shares a pool of four threads. A worker thread has nothing to do besides its publication,
 * so as long as the disk is fast it waits synchronously and leaves the pool to the others.
 */
async function flush(opened: number): Promise<void> {
  if (isMainThread || syncs.isSlow()) await fsyncInPool(opened);
  else syncs.time(() => fsyncSync(opened));
}
