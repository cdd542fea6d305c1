import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { customAlphabet } from 'nanoid';
import { type Disk, waitingDisk } from '../../core/lib/disk.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { YieldToEventLoop } from '../../core/lib/event-loop.ts';
import { errnoOf } from '../../core/lib/system-errors.ts';

export interface StagingArea {
  /**
   * Creates an empty directory for one upload and returns its absolute path. The directory belongs to the
   * upload and, once accepted, to its run. It is removed together with the run.
   */
  create(): Promise<string>;
  /** Removes the directory that `create` made. `staged` is that directory or a path inside it. */
  discard(staged: string): Promise<void>;
}

/*
 * Each upload is staged in its own directory directly below `server.staging.directory`. The directory's name
 * identifies it as waybill's. Other files in the staging directory are never touched.
 */
const nameForm = /^upload-[0-9a-z]{16}$/;
const randomName = customAlphabet('0123456789abcdefghijklmnopqrstuvwxyz', 16);

/**
 * Returns the upload directories in `staging`, on that disk. Calls `yieldToEventLoop` before each creation or
 * removal.
 */
export function uploadDirectories(
  staging: string,
  yieldToEventLoop: YieldToEventLoop,
  disk: Disk = waitingDisk,
): StagingArea {
  return {
    create: async () => {
      await yieldToEventLoop();
      return newUploadDirectory(staging, disk);
    },
    discard: async (staged) => {
      await yieldToEventLoop();
      await removeUploadDirectory(staging, staged, disk);
    },
  };
}

/**
 * Creates an empty directory for one upload and returns its path. Recreates the staging directory if it was
 * removed while the daemon is running.
 */
export async function newUploadDirectory(staging: string, disk: Disk = waitingDisk): Promise<string> {
  const directory = path.join(staging, `upload-${randomName()}`);
  try {
    await disk.makeDirectory(directory);
    return directory;
  } catch (error) {
    // A disk that did not respond in time may still create it.
    await disk.remove(directory).catch(() => undefined);
    throw error;
  }
}

/** Removes the upload directory that is or contains `staged`. Throws `internal_error` if there is none. */
export async function removeUploadDirectory(
  staging: string,
  staged: string,
  disk: Disk = waitingDisk,
): Promise<void> {
  await disk.remove(uploadDirectoryOf(staging, staged));
}

/** Returns the upload directory that is or contains `staged`. Throws `internal_error` if there is none. */
export function uploadDirectoryOf(staging: string, staged: string): string {
  const name = path.relative(staging, staged).split(path.sep)[0] ?? '';
  if (nameForm.test(name)) return path.join(staging, name);
  throw new WaybillError('internal_error', `${staged} is not in an upload's staging directory`);
}

/**
 * Removes every upload directory in `staging` except those in `keep`. Resolves with the names of the removed
 * ones. `staging` may be missing.
 */
export async function sweepUploadDirectories(
  staging: string,
  keep: ReadonlySet<string> = new Set(),
): Promise<string[]> {
  const entries = await readdir(staging, { withFileTypes: true }).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  });
  const names = entries
    .filter((entry) => entry.isDirectory() && nameForm.test(entry.name))
    .map(({ name }) => name)
    .filter((name) => !keep.has(path.join(staging, name)));
  await Promise.all(names.map((name) => rm(path.join(staging, name), { recursive: true, force: true })));
  return names;
}
