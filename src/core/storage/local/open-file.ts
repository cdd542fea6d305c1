import { closeSync, constants, fstatSync, openSync, statfsSync, unlinkSync, type Stats } from 'node:fs';
import { WaybillError } from '../../lib/errors.ts';
import type { FileIdentity, Storage } from '../storage.ts';
import { applyMode } from './apply-mode.ts';
import { errnoOf } from './errors.ts';

/** Opening a named pipe for reading would otherwise block the thread until another process writes to it. */
const readFlags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;
const createFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * By the `f_type` of statfs(2): FUSE, CIFS, SMB2 and 9p may give a file another inode number each time they
 * are asked.
 */
const changesInodes = new Set([0x65735546, 0xff534d42, 0xfe534d42, 0x01021997]);

/**
 * Opens a regular file for reading and returns its descriptor. Links are not followed. Throws
 * `storage_permanent` if it is no regular file, `body_mismatch` if it is not the file that was listed as
 * `expected`, and system errors as Node.js reports them.
 */
export function openToRead(
  storage: Pick<Storage, 'label'>,
  key: string,
  file: string,
  expected?: FileIdentity,
): number {
  let opened: number;
  try {
    opened = openSync(file, readFlags);
  } catch (error) {
    // ELOOP: a symbolic link. ENXIO: a socket.
    if (errnoOf(error) !== 'ELOOP' && errnoOf(error) !== 'ENXIO') throw error;
    throw notTheFile(storage, key, expected, error);
  }
  try {
    const found = fstatSync(opened);
    if (!found.isFile() || (expected !== undefined && !isSame(opened, found, expected)))
      throw notTheFile(storage, key, expected);
    return opened;
  } catch (error) {
    closeSync(opened);
    throw error;
  }
}

/**
 * Creates a file with this mode, whatever the umask, and returns its descriptor. A file or link that an
 * earlier attempt, or another user, has put there is removed first, so that nothing is written through it.
 */
export function createFile(file: string, mode: number): number {
  const opened = openNew(file, mode);
  try {
    applyMode(opened, mode);
    return opened;
  } catch (error) {
    closeSync(opened);
    throw error;
  }
}

function openNew(file: string, mode: number): number {
  try {
    return openSync(file, createFlags, mode);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    unlinkSync(file);
    return openSync(file, createFlags, mode);
  }
}

function isSame(opened: number, found: Stats, { inode, device }: FileIdentity): boolean {
  if (found.ino === inode && found.dev === device) return true;
  return process.platform === 'linux' && changesInodes.has(statfsSync(`/proc/self/fd/${opened}`).type);
}

function notTheFile(
  storage: Pick<Storage, 'label'>,
  key: string,
  expected: FileIdentity | undefined,
  cause?: unknown,
): WaybillError {
  if (expected === undefined)
    return new WaybillError('storage_permanent', `${storage.label}: "${key}" is not a file`, {
      cause,
      hint: 'remove it, or put a file there; symbolic links are not followed',
    });
  return new WaybillError('body_mismatch', `${storage.label}: "${key}" was replaced after it was listed`, {
    cause,
    hint: 'the source changed while it was read; run again when it is complete',
  });
}
