import { execFile } from 'node:child_process';
import { closeSync, fsync, fsyncSync, openSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { isMainThread } from 'node:worker_threads';
import pMap from 'p-map';
import { pacer } from './slow-call-detector.ts';

/**
 * From this many files on, one `syncfs` of their file system (coreutils' `sync --file-system`; Node has no
 * such call) replaces an fsync for each: measured on ext4, 5,000 files of 8 KiB take some 60 ms instead of
 * 800.
 */
const manyFiles = 32;
const syncsAtOnce = 4;
const run = promisify(execFile);
const fsyncLater = promisify(fsync);
const syncing = pacer({ slowMs: 20 });

/** Returns when the contents of all these files are on disk. */
export async function makeDurable(files: readonly string[]): Promise<void> {
  const [first] = files;
  if (first === undefined) return;
  if (files.length >= manyFiles && (await syncFileSystem(path.dirname(first)))) return;
  await pMap(files, syncFile, { concurrency: syncsAtOnce });
}

/** Returns when the names in these directories are on disk. */
export async function syncDirectories(directories: Iterable<string>): Promise<void> {
  const all = [...directories];
  const [first] = all;
  if (first === undefined) return;
  if (all.length >= manyFiles && (await syncFileSystem(first))) return;
  await pMap(all, syncDirectory, { concurrency: syncsAtOnce });
}

/**
 * False where the program is missing or failed: then each file is synced, and a real I/O error shows itself.
 */
async function syncFileSystem(directory: string): Promise<boolean> {
  if (process.platform !== 'linux') return false;
  return run('sync', ['--file-system', directory]).then(
    () => true,
    () => false,
  );
}

async function syncFile(file: string): Promise<void> {
  const opened = openSync(file, 'r+');
  try {
    await flush(opened);
  } finally {
    closeSync(opened);
  }
}

/**
 * A directory that was removed meanwhile has no names to keep; some file systems cannot sync directories
 * (EINVAL).
 */
async function syncDirectory(directory: string): Promise<void> {
  let opened: number | undefined;
  try {
    opened = openSync(directory, 'r');
    await flush(opened);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== 'ENOENT' && code !== 'EINVAL' && code !== 'ENOTSUP') throw error;
  } finally {
    if (opened !== undefined) closeSync(opened);
  }
}

/**
 * The thread pool has four threads for the whole process. A worker thread has nothing else to do than its
 * publication, so it waits by itself where the disk is quick, and leaves the pool to the others.
 */
async function flush(opened: number): Promise<void> {
  if (isMainThread || syncing.isSlow()) await fsyncLater(opened);
  else syncing.time(() => fsyncSync(opened));
}
