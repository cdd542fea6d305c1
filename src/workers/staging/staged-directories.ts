import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { customAlphabet } from 'nanoid';
import type { Breathe } from '../../core/lib/breath.ts';
import { type Disk, waitingDisk } from '../../core/lib/disk.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { errnoOf } from '../../core/lib/system-errors.ts';

export interface StagingArea {
  /**
   * Makes an empty directory for one upload and returns its absolute path. It belongs to the upload, and from
   * acceptance on to the run, which it does not outlive.
   */
  create(): Promise<string>;
  /** Removes the directory that `create` made; `staged` is that directory or lies in it. */
  discard(staged: string): Promise<void>;
}

/*
 * Each upload is staged in a directory of its own, directly below `server.staging.directory`, with a name
 * that identifies it as ours: anything else in the staging directory belongs to somebody and is never
 * touched.
 */
const nameForm = /^upload-[0-9a-z]{16}$/;
const randomName = customAlphabet('0123456789abcdefghijklmnopqrstuvwxyz', 16);

/** The upload directories in `staging`, on that disk. Asks `breathe` before each is made or removed. */
export function uploadDirectories(staging: string, breathe: Breathe, disk: Disk = waitingDisk): StagingArea {
  return {
    create: async () => {
      await breathe();
      return newUploadDirectory(staging, disk);
    },
    discard: async (staged) => {
      await breathe();
      await removeUploadDirectory(staging, staged, disk);
    },
  };
}

/**
 * Makes a new, empty directory for one upload and returns its path. The staging directory is made again if it
 * was removed underneath the daemon.
 */
export async function newUploadDirectory(staging: string, disk: Disk = waitingDisk): Promise<string> {
  const directory = path.join(staging, `upload-${randomName()}`);
  try {
    await disk.makeDirectory(directory);
    return directory;
  } catch (error) {
    // A disk that has not answered in time may make it after all.
    await disk.remove(directory).catch(() => undefined);
    throw error;
  }
}

/** Removes the upload directory that is, or contains, `staged`. Throws `internal_error` if none does. */
export async function removeUploadDirectory(
  staging: string,
  staged: string,
  disk: Disk = waitingDisk,
): Promise<void> {
  await disk.remove(uploadDirectoryOf(staging, staged));
}

/** The upload directory that is, or contains, `staged`. Throws `internal_error` if none does. */
export function uploadDirectoryOf(staging: string, staged: string): string {
  const name = path.relative(staging, staged).split(path.sep)[0] ?? '';
  if (nameForm.test(name)) return path.join(staging, name);
  throw new WaybillError('internal_error', `${staged} is not in an upload's staging directory`);
}

/**
 * Removes every upload directory in `staging` but those to `keep`, and resolves with the names of the removed
 * ones. `staging` need not exist.
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
