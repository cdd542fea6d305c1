import { closeSync, readdirSync, rmdirSync, unlinkSync } from 'node:fs';
import { setImmediate as breathe } from 'node:timers/promises';
import { joinKey, type Key } from '../key.ts';
import { errnoOf, unlessAbsent } from './errors.ts';
import { openDirectory, type DirectoryHandles } from './handles.ts';

/** The event loop gets its turn after this many entries. */
const entriesPerBreath = 512;
const maxRounds = 10;

/**
 * Removes a directory with all that is in it; a link is removed and not followed. Entries that vanish
 * meanwhile are of no concern. Synchronous calls, as everywhere here: the staging of an attempt holds a name
 * for each file that it replaced. Each directory is held open while it is emptied. Throws system errors as
 * Node.js reports them.
 */
export async function removeTreeAt(handles: DirectoryHandles, directory: Key): Promise<void> {
  await removeBelow(() => handles.at(directory), { entries: 0 });
}

/**
 * `pathOf` is called again after each pause, when the directory above may have been closed. A process that
 * still writes into the directory cannot keep it: after a few rounds its writes fail.
 */
async function removeBelow(
  pathOf: () => string,
  count: { entries: number },
  rounds = maxRounds,
): Promise<void> {
  const directory = unlessAbsent(() => openAt(pathOf()));
  if (directory !== undefined)
    try {
      for (const entry of readdirSync(directory.path, { withFileTypes: true })) {
        const path = `${directory.path}/${entry.name}`;
        if (entry.isDirectory()) await removeBelow(() => path, count);
        else unlessAbsent(() => unlinkSync(path));
        count.entries += 1;
        if (count.entries % entriesPerBreath === 0) await breathe();
      }
    } finally {
      closeSync(directory.descriptor);
    }
  try {
    removeOne(pathOf);
  } catch (error) {
    if (errnoOf(error) !== 'ENOTEMPTY' || rounds === 1) throw error;
    await removeBelow(pathOf, count, rounds - 1);
  }
}

function openAt(path: string): ReturnType<typeof openDirectory> {
  return openDirectory(path, path);
}

/** Removes an empty directory, or what another user has put in its place meanwhile. */
function removeOne(pathOf: () => string): void {
  try {
    rmdirSync(pathOf());
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOTDIR') unlessAbsent(() => unlinkSync(pathOf()));
    else if (errno !== 'ENOENT') throw error;
  }
}

/** Removes a directory that holds nothing but such directories; false if it holds anything else. */
export function removedIfEmpty(handles: DirectoryHandles, directory: Key): boolean {
  for (const entry of readdirSync(handles.of(directory), { withFileTypes: true }))
    if (!entry.isDirectory() || !removedIfEmpty(handles, joinKey(directory, entry.name))) return false;
  rmdirSync(handles.at(directory));
  return true;
}

/** Removes a scratch file, if it can. */
export function removeIfThere(handles: DirectoryHandles, key: Key): void {
  try {
    unlinkSync(handles.at(key));
  } catch {
    // It was moved, or never written. A file that cannot be removed is swept by the next publisher.
  }
}
