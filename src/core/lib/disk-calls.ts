import {
  closeSync,
  constants,
  copyFileSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmdirSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import { errnoOf } from './system-errors.ts';

/*
 * Synchronous file operations for the staging directory. They run on a separate thread, which is why this
 * file imports so little. Paths are absolute, and system errors are thrown as they are.
 */

/** The file descriptors of files that are being written, by file name. */
const open = new Map<string, number>();

/** Creates a directory, along with any missing parent directories. */
export function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 });
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    mkdirSync(directory, { recursive: true, mode: 0o700 });
  }
}

/** Creates these directories in order, skipping any that already exist. */
export function makeDirectories(directories: readonly string[]): void {
  for (const directory of directories)
    try {
      mkdirSync(directory, { mode: 0o700 });
    } catch (error) {
      // Two directories can have the same name if case makes no difference on this file system.
      if (errnoOf(error) !== 'EEXIST') throw error;
    }
}

/** Writes a new file. Fails if it exists. */
export function writeFile(file: string, bytes: Uint8Array): void {
  writeFileSync(file, bytes, { flag: 'wx', mode: 0o600 });
}

/** Creates a new file and keeps it open until `closeFile`. Fails if it exists. */
export function openFile(file: string): void {
  open.set(file, openSync(file, 'wx', 0o600));
}

/** Appends to a file that `openFile` created. */
export function appendToFile(file: string, bytes: Uint8Array): void {
  const descriptor = open.get(file);
  if (descriptor === undefined) throw new Error('appendToFile needs a file created by openFile');
  for (let done = 0; done < bytes.byteLength;) done += writeSync(descriptor, bytes, done);
}

/** Closes a file that `openFile` created. Any other file is ignored. */
export function closeFile(file: string): void {
  const descriptor = open.get(file);
  open.delete(file);
  if (descriptor !== undefined) closeSync(descriptor);
}

/** Creates a hard link to a file under `name`, and replaces anything that has that name. */
export function linkInPlace(file: string, name: string): void {
  try {
    linkSync(file, name);
  } catch (error) {
    const code = errnoOf(error);
    if (code !== 'EEXIST' && code !== 'ENOENT') throw error;
    // Either the directory was removed, or there already is something with this name.
    mkdirSync(path.dirname(name), { recursive: true, mode: 0o700 });
    remove(name);
    linkSync(file, name);
  }
}

/**
 * Creates a hard link to a file. If the file has too many links already, copies it instead. Returns false if
 * neither works. Throws if the disk is full.
 */
export function linkOrCopy(file: string, name: string): boolean {
  return (
    attempt(() => linkSync(file, name)) || attempt(() => copyFileSync(file, name, constants.COPYFILE_EXCL))
  );
}

/**
 * Removes a file, or a directory and everything in it. Does nothing if it does not exist.
 *
 * @param onProgress Called after each entry, since there can be millions.
 */
export function remove(name: string, onProgress: () => void = () => undefined): void {
  try {
    unlinkSync(name);
  } catch (error) {
    const code = errnoOf(error);
    if (code === 'ENOENT') return;
    // Linux reports EISDIR, and other systems EPERM.
    if (code !== 'EISDIR' && code !== 'EPERM') throw error;
    for (const entry of entriesOf(name)) remove(path.join(name, entry), onProgress);
    removeEmptied(name);
  }
  onProgress();
}

/** Removes a file, and its directory if that is then empty. Does nothing if the file does not exist. */
export function removeWithEmptyParent(name: string): void {
  remove(name);
  try {
    rmdirSync(path.dirname(name));
  } catch (error) {
    const code = errnoOf(error);
    // POSIX allows either code for a directory that is not empty.
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST' && code !== 'ENOENT') throw error;
  }
}

function entriesOf(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}

function removeEmptied(directory: string): void {
  try {
    rmdirSync(directory);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
}

/** Runs `work`, and returns false if it throws a system error. If the disk is full, throws that error. */
function attempt(work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    const code = errnoOf(error);
    if (code === undefined || code === 'ENOSPC' || code === 'EDQUOT') throw error;
    return false;
  }
}
