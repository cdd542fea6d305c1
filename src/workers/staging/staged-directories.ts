import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { customAlphabet } from 'nanoid';
import { blockingDisk, type Disk } from '../../core/lib/disk.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { YieldToEventLoop } from '../../core/lib/event-loop.ts';
import { errnoOf } from '../../core/lib/system-errors.ts';

export interface StagingArea {
  /**
   * Creates an empty directory for an upload and returns its absolute path. The directory first belongs to
   * the upload and then to the accepted run. It is deleted along with the run.
   */
  create(): Promise<string>;
  /** Deletes a directory that was made by `create`. `staged` is that directory, or a path inside of it. */
  discard(staged: string): Promise<void>;
}

/*
 * Every upload is staged in its own directory in `server.staging.directory`. Its name shows that waybill
 * created it. Any other files in the staging directory are left alone.
 */
const nameForm = /^upload-[0-9a-z]{16}$/;
const randomName = customAlphabet('0123456789abcdefghijklmnopqrstuvwxyz', 16);

/**
 * Manages the upload directories in `staging`. `disk` is the disk that they are on. Calls `yieldToEventLoop`
 * before a directory is created or deleted.
 */
export function createStagingArea(
  staging: string,
  yieldToEventLoop: YieldToEventLoop,
  disk: Disk = blockingDisk,
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
 * Creates an empty directory for an upload and returns its path. If the staging directory was deleted in the
 * meantime, it is created again.
 */
export async function newUploadDirectory(staging: string, disk: Disk = blockingDisk): Promise<string> {
  const directory = path.join(staging, `upload-${randomName()}`);
  try {
    await disk.makeDirectory(directory);
    return directory;
  } catch (error) {
    // If the disk did not respond in time, it may still create the directory later.
    await disk.remove(directory).catch(() => undefined);
    throw error;
  }
}

/** Deletes the upload directory that is or contains `staged`. Throws `internal_error` if there is none. */
export async function removeUploadDirectory(
  staging: string,
  staged: string,
  disk: Disk = blockingDisk,
): Promise<void> {
  await disk.remove(uploadDirectoryOf(staging, staged));
}

/** Finds the upload directory that is or contains `staged`. Throws `internal_error` if there is none. */
export function uploadDirectoryOf(staging: string, staged: string): string {
  const name = path.relative(staging, staged).split(path.sep)[0] ?? '';
  if (nameForm.test(name)) return path.join(staging, name);
  throw new WaybillError('internal_error', `${staged} is not in an upload's staging directory`);
}

/**
 * Deletes all upload directories in `staging`, except for those in `keep`, and resolves with their names.
 * `staging` does not have to exist.
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
