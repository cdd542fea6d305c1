import { constants } from 'node:fs';
import { lstat, open, rm } from 'node:fs/promises';
import path from 'node:path';
import { isAbsent } from '../lib/system-errors.ts';

/*
 * Keeps a file of zeros around. When the disk is full, it is deleted to make room for the records of acts
 * that have already been allowed.
 */

export const reserveName = 'reserve';
export const reserveBytes = 256 * 1024;

/** Creates the file if it does not exist. If there is not enough space, throws the system error. */
export async function requireReserve(directory: string): Promise<void> {
  const at = path.join(directory, reserveName);
  const found = await lstat(at).catch((error: unknown) => {
    if (isAbsent(error)) return null;
    throw error;
  });
  if (found !== null && found.size >= reserveBytes) return;
  const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW } = constants;
  const handle = await open(at, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o600);
  try {
    await handle.writeFile(Buffer.alloc(reserveBytes));
    await handle.sync();
  } catch (error) {
    await handle.truncate(0);
    throw error;
  } finally {
    await handle.close();
  }
}

/** Removes the file. Returns false if there was none. */
export async function removeReserve(directory: string): Promise<boolean> {
  const at = path.join(directory, reserveName);
  const found = await lstat(at).catch(() => null);
  if (found === null || found.size === 0) return false;
  await rm(at, { force: true });
  return true;
}
