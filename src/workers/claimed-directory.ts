import { existsSync } from 'node:fs';
import { mkdir, rmdir } from 'node:fs/promises';
import path from 'node:path';
import { hasCode } from '../core/errors.ts';
import { lockDirectory } from './embedded/directory-lock.ts';

/** A directory that belongs to this process until it is released, or the process ends. */
export interface ClaimedDirectory {
  directory: string;
  /** Gives it back, and removes it if nothing is in it. */
  release(): Promise<void>;
}

/** Processes of one machine that may stage in one directory. */
const mostProcesses = 64;

/**
 * The first of `name`, `name-2`, … below `parent` that no process has: in bullmq mode several processes of a
 * machine may stage in one directory. Null if there is none and none is to be made. Throws the system's
 * error.
 */
export async function claimDirectory(
  parent: string,
  name: string,
  isMade: boolean,
): Promise<ClaimedDirectory | null> {
  for (let number = 1; ; number += 1) {
    const directory = path.join(parent, number === 1 ? name : `${name}-${number}`);
    if (!isMade && !existsSync(directory)) return null;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    try {
      const lock = await lockDirectory(directory);
      return {
        directory,
        release: async () => {
          await lock.release();
          await rmdir(directory).catch(() => undefined); // It is not empty.
        },
      };
    } catch (error) {
      if (!hasCode(error, 'queue_unusable') || number === mostProcesses) throw error;
    }
  }
}
