import { existsSync } from 'node:fs';
import { mkdir, rmdir } from 'node:fs/promises';
import path from 'node:path';
import { hasCode, WaybillError } from '../../core/errors.ts';
import { lockDirectory, type DirectoryLock } from '../embedded/directory-lock.ts';
import { partialFiles, type PartialFiles } from './partial-files.ts';
import type { PartialUpload } from './partial-upload.ts';

/** The directory of this process's partial uploads, which is there while there are any. */
export interface PartialPlace {
  /** What an earlier process left. */
  left: readonly PartialUpload[];
  /** Makes the directory this process's own, if it has none yet. */
  claim(): Promise<PartialFiles>;
  /** Of the directory that was claimed. */
  files(): PartialFiles;
  /** Gives the directory back, and removes it if nothing is in it. */
  close(): Promise<void>;
}

interface Claimed {
  directory: string;
  lock: DirectoryLock;
  files: PartialFiles;
}

/** Processes of one machine that may stage in one directory. */
const mostProcesses = 64;

/**
 * Takes the directory `partial` below `staging`. In bullmq mode several processes of a machine may stage in
 * one directory: each has then a directory of its own, by a number. Throws the system's error.
 */
export async function openPartialPlace(staging: string): Promise<PartialPlace> {
  let claimed = await claimDirectory(staging, false);
  let claiming: Promise<Claimed | null> | null = null;
  const left = (await claimed?.files.read()) ?? [];
  const files = (): PartialFiles => {
    if (claimed === null)
      throw new WaybillError('internal_error', 'there is no directory of partial uploads');
    return claimed.files;
  };
  return {
    left,
    files,
    claim: async () => {
      if (claimed === null) {
        claiming ??= claimDirectory(staging, true).finally(() => (claiming = null));
        claimed = await claiming;
      }
      return files();
    },
    close: async () => {
      await claiming?.catch(() => null);
      if (claimed === null) return;
      await claimed.lock.release();
      await rmdir(claimed.directory).catch(() => undefined); // It is not empty.
    },
  };
}

/** The first that no process has; null if there is none and none is to be made. */
async function claimDirectory(staging: string, isMade: boolean): Promise<Claimed | null> {
  for (let number = 1; ; number += 1) {
    const directory = path.join(staging, number === 1 ? 'partial' : `partial-${number}`);
    if (!isMade && !existsSync(directory)) return null;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    try {
      return { directory, lock: await lockDirectory(directory), files: partialFiles(directory) };
    } catch (error) {
      if (!hasCode(error, 'queue_unusable') || number === mostProcesses) throw error;
    }
  }
}
