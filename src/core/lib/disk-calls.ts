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
 * Synchronous file operations on the staging directory. A dedicated thread runs them, so this file has few
 * imports. All paths are absolute. All functions throw system errors.
 */

/** Descriptors of files that are being written, by name. */
const open = new Map<string, number>();

/** Creates a directory, and its parents if they do not exist. */
export function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 });
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    mkdirSync(directory, { recursive: true, mode: 0o700 });
  }
}

/** Creates these directories in order. Existing ones are accepted. */
export function makeDirectories(directories: readonly string[]): void {
  for (const directory of directories)
    try {
      mkdirSync(directory, { mode: 0o700 });
    } catch (error) {
      // On a case-insensitive file system, two directories that differ only in case are the same.
      if (errnoOf(error) !== 'EEXIST') throw error;
    }
}

/** Writes a file that must not exist yet. */
export function writeFile(file: string, bytes: Uint8Array): void {
  writeFileSync(file, bytes, { flag: 'wx', mode: 0o600 });
}

/** Creates a file that must not exist yet. It stays open until `endFile`. */
export function beginFile(file: string): void {
  open.set(file, openSync(file, 'wx', 0o600));
}

/** Appends to a file created by `beginFile`. */
export function appendToFile(file: string, bytes: Uint8Array): void {
  const descriptor = open.get(file);
  if (descriptor === undefined) throw new Error('appendToFile needs a file created by beginFile');
  for (let done = 0; done < bytes.byteLength;) done += writeSync(descriptor, bytes, done);
}

/** Closes a file created by `beginFile`. Does nothing for other files. */
export function endFile(file: string): void {
  const descriptor = open.get(file);
  open.delete(file);
  if (descriptor !== undefined) closeSync(descriptor);
}

/** Creates a hard link `name` to a file, replacing any existing entry. */
export function linkInPlace(file: string, name: string): void {
  try {
    linkSync(file, name);
  } catch (error) {
    const code = errnoOf(error);
    if (code !== 'EEXIST' && code !== 'ENOENT') throw error;
    // The directory was removed, or the name already exists.
    mkdirSync(path.dirname(name), { recursive: true, mode: 0o700 });
    remove(name);
    linkSync(file, name);
  }
}

/**
 * Creates a hard link to a file, or a copy if the file already has the maximum number of links. Returns false
 * if neither is possible. Throws if the disk is full.
 */
export function linkOrCopy(file: string, name: string): boolean {
  return (
    attempt(() => linkSync(file, name)) || attempt(() => copyFileSync(file, name, constants.COPYFILE_EXCL))
  );
}

/**
 * Removes a file, or a directory with its content. Does nothing if it does not exist.
 *
 * @param onProgress Called after each entry, because there may be millions of them.
 */
export function remove(name: string, onProgress: () => void = () => undefined): void {
  try {
    unlinkSync(name);
  } catch (error) {
    const code = errnoOf(error);
    if (code === 'ENOENT') return;
    // EISDIR on Linux, EPERM on other systems.
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

/** Returns false if `work` fails with a system error. Throws the error if the disk is full. */
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
