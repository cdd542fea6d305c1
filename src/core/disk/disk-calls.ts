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
import { errnoOf } from '../storage/local/errors.ts';

/*
 * What is done to the disk of staging, each a step that takes as long as the disk wants. It does nothing but
 * that, so that a thread can do it which loads nothing else. All paths are absolute. All throw the system's
 * error.
 */

/** Files that are being written, by their names. */
const open = new Map<string, number>();

/** Makes a directory; also those above it, if they are not there. */
export function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 });
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    mkdirSync(directory, { recursive: true, mode: 0o700 });
  }
}

/** Makes each of these directories, one after the other; one that is there already is all right. */
export function makeDirectories(directories: readonly string[]): void {
  for (const directory of directories)
    try {
      mkdirSync(directory, { mode: 0o700 });
    } catch (error) {
      // Two directories that differ only in case are one on a file system that folds case.
      if (errnoOf(error) !== 'EEXIST') throw error;
    }
}

/** Writes a file that must not be there. */
export function writeFile(file: string, bytes: Uint8Array): void {
  writeFileSync(file, bytes, { flag: 'wx', mode: 0o600 });
}

/** Begins a file that must not be there, which is open until `endFile`. */
export function beginFile(file: string): void {
  open.set(file, openSync(file, 'wx', 0o600));
}

/** Appends to a file that was begun. */
export function appendToFile(file: string, bytes: Uint8Array): void {
  const descriptor = open.get(file);
  if (descriptor === undefined) throw new Error('bytes came for a file that was not begun');
  for (let done = 0; done < bytes.byteLength;) done += writeSync(descriptor, bytes, done);
}

/** Closes a file that was begun; nothing if it was not. */
export function endFile(file: string): void {
  const descriptor = open.get(file);
  open.delete(file);
  if (descriptor !== undefined) closeSync(descriptor);
}

/** Gives a file one more name, in place of whatever has it. */
export function linkInPlace(file: string, name: string): void {
  try {
    linkSync(file, name);
  } catch (error) {
    const code = errnoOf(error);
    if (code !== 'EEXIST' && code !== 'ENOENT') throw error;
    // Somebody has tidied up, or something is in the way.
    mkdirSync(path.dirname(name), { recursive: true, mode: 0o700 });
    remove(name);
    linkSync(file, name);
  }
}

/**
 * Makes a file also `name`, by a link, or by a copy where it has as many names as a file may have. False if
 * neither can be; throws where the disk is full.
 */
export function linkOrCopy(file: string, name: string): boolean {
  return (
    attempt(() => linkSync(file, name)) || attempt(() => copyFileSync(file, name, constants.COPYFILE_EXCL))
  );
}

/**
 * Removes a file, or a directory with all that is in it; nothing if it is not there.
 *
 * @param onProgress Called after each entry: there may be millions.
 */
export function remove(name: string, onProgress: () => void = () => undefined): void {
  try {
    unlinkSync(name);
  } catch (error) {
    const code = errnoOf(error);
    if (code === 'ENOENT') return;
    // EISDIR on Linux, else EPERM.
    if (code !== 'EISDIR' && code !== 'EPERM') throw error;
    for (const entry of entriesOf(name)) remove(path.join(name, entry), onProgress);
    removeEmptied(name);
  }
  onProgress();
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

/** False for a system's error, but for a full disk, which is thrown. */
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
