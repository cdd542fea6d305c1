import { closeSync, constants, fstatSync, lstatSync, openSync, type Stats, statSync } from 'node:fs';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { isAbsent, undefinedIfAbsent } from '../../lib/system-errors.ts';
import type { FixedModes, ManagedEntries } from '../capabilities.ts';
import type { Key } from '../key.ts';
import type { FileModes } from '../modes.ts';
import { entriesPerYield } from './entries.ts';
import { type DirectoryHandles, openPath, openPathOnly } from './local-directories.ts';
import { applyMode } from './local-root.ts';

/**
 * Implements `Modes.fixModes`. Another user with write access to the destination could replace a file with
 * one whose permissions must not be loosened. Therefore, only files owned by this user are changed, and if a
 * file has several hard links, permissions are only taken away. Each file is opened without following links,
 * and then changed through its descriptor.
 */
export async function fixModes(
  handles: DirectoryHandles,
  modes: FileModes,
  { files, directories }: ManagedEntries,
  { dryRun }: { dryRun: boolean },
): Promise<FixedModes> {
  const result: FixedModes = { fixed: 0, refused: 0 };
  const count = (isFixed: boolean): void => void (result[isFixed ? 'fixed' : 'refused'] += 1);
  let looked = 0;
  for (const [key, size] of files) {
    looked += 1;
    if (looked % entriesPerYield === 0) await yieldToEventLoop();
    const found = undefinedIfAbsent(() => handles.withEntryPath(key, (file) => lstatSync(file)));
    if (found?.isFile() !== true || found.size !== size || (found.mode & 0o7777) === modes.file) continue;
    if (!mayChange(found, modes.file)) count(false);
    else count(dryRun || isFileFixed(handles, key, found, modes.file));
  }
  for (const key of directories) {
    const isFixed = undefinedIfAbsent(() => {
      const inside = handles.directoryPath(key);
      const found = statSync(inside);
      if ((found.mode & 0o777) === modes.directory) return null;
      if (!isOwn(found) || dryRun) return isOwn(found);
      return applyMode(inside, modes.directory) && (statSync(inside).mode & 0o777) === modes.directory;
    });
    if (isFixed === true || isFixed === false) count(isFixed);
  }
  return result;
}

function isOwn({ uid }: Stats): boolean {
  return uid === process.geteuid?.();
}

function mayChange(found: Stats, mode: number): boolean {
  const losesOnly = (mode & ~found.mode) === 0;
  return isOwn(found) && (found.nlink === 1 || losesOnly);
}

/** Works even if the file's mode does not allow us to read it. */
function isFileFixed(handles: DirectoryHandles, key: Key, listed: Stats, mode: number): boolean {
  let opened: number | null = null;
  try {
    opened = handles.withEntryPath(key, (file) => openSync(file, openPathOnly | constants.O_NOFOLLOW));
    const found = fstatSync(opened);
    const isListed = found.isFile() && found.ino === listed.ino && found.dev === listed.dev;
    if (!isListed || !mayChange(found, mode)) return false;
    const file = openPath(opened, '');
    // File systems without modes may report success even though nothing has changed.
    return applyMode(file === '' ? opened : file, mode) && (fstatSync(opened).mode & 0o7777) === mode;
  } catch (error) {
    if (isAbsent(error)) return false;
    throw error;
  } finally {
    if (opened !== null) closeSync(opened);
  }
}
