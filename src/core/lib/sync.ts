import { spawn } from 'node:child_process';
import { closeSync, constants, fsync, fsyncSync, openSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import pMap from 'p-map';
import { errnoOf } from './system-errors.ts';

/*
 * Makes files and names durable: after a power loss they are still there.
 */

/**
 * From this many files on, one `syncfs` of their file system replaces an fsync per file: on ext4, 5,000 files
 * of 8 KiB take some 60 ms instead of 800.
 */
const manyFiles = 32;
const concurrency = 4;
const flush = promisify(fsync);

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

/** As `makeDurable`, for names that `paths` converts to paths. */
export async function makeAllDurable<Name>(
  paths: PathsOf<Name>,
  files: readonly Name[],
  directories: Iterable<Name> = [],
): Promise<void> {
  const named = [...directories];
  const first = files[0] === undefined ? named[0] : paths.parentOf(files[0]);
  if (first === undefined) return;
  if (files.length + named.length >= manyFiles && (await hasSynced(() => paths.directory(first)))) return;
  await pMap(files, (file) => syncFile(paths.file(file)), { concurrency });
  await pMap(named, (directory) => syncDirectory(() => paths.directory(directory)), { concurrency });
}

/** Syncs the file system of an open directory, because its name may soon lead elsewhere. */
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

/**
 * Makes everything on the file system of `directory` durable by `syncfs`, which Node.js lacks, using
 * `sync --file-system` of coreutils. Returns false if that is missing or fails. The caller then syncs each
 * file, which reports real I/O errors. The program gets no secrets of this process.
 */
export async function syncFileSystem(directory: string): Promise<boolean> {
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin' };
  const child = spawn('sync', ['--file-system', '--', directory], { env, stdio: 'ignore' });
  return new Promise((resolve) => {
    child.once('error', () => resolve(false));
    child.once('exit', (code) => resolve(code === 0));
  });
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
 * Makes the names in a directory durable, and waits for the disk. Does nothing if this user may not read the
 * directory. Throws system errors as Node.js reports them.
 */
export function syncNames(directory: string): void {
  let opened: number | undefined;
  try {
    opened = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY);
    fsyncSync(opened);
  } catch (error) {
    const errno = errnoOf(error) ?? '';
    if (!unsyncable.has(errno) && errno !== 'EACCES') throw error;
  } finally {
    if (opened !== undefined) closeSync(opened);
  }
}

/**
 * Creates a directory and its missing parents, and makes their names durable. Throws system errors as Node.js
 * reports them.
 */
export async function makeDurableDirectory(directory: string, mode: number): Promise<void> {
  const first = await mkdir(directory, { recursive: true, mode });
  if (first === undefined) return;
  const above = path.dirname(path.resolve(first));
  for (let at = path.resolve(directory); at !== above; at = path.dirname(at)) syncNames(path.dirname(at));
}

/**
 * A directory that has been removed meanwhile has no names to keep, and some file systems cannot sync
 * directories (EINVAL).
 */
const unsyncable: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'EINVAL', 'ENOTSUP']);

async function syncDirectory(directory: () => string): Promise<void> {
  let opened: number | undefined;
  try {
    opened = openSync(directory(), constants.O_RDONLY | constants.O_DIRECTORY);
    await flush(opened);
  } catch (error) {
    if (!unsyncable.has(errnoOf(error) ?? '')) throw error;
  } finally {
    if (opened !== undefined) closeSync(opened);
  }
}
