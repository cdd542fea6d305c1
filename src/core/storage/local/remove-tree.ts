import { readdirSync, rmdirSync, unlinkSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as breathe } from 'node:timers/promises';
import { unlessAbsent } from './errors.ts';

/** The event loop gets its turn after this many entries. */
const entriesPerBreath = 512;

/**
 * Removes a directory with all that is in it. Entries that vanish meanwhile are of no concern. Synchronous
 * calls, as everywhere here: the staging of an attempt holds a name for each file that it replaced. Throws
 * system errors as Node.js reports them.
 */
export async function removeTreeAt(directory: string): Promise<void> {
  let count = 0;
  const directories = [directory];
  // Grows while it is walked: each directory is followed by those in it.
  for (const current of directories) {
    for (const entry of unlessAbsent(() => readdirSync(current, { withFileTypes: true })) ?? []) {
      const name = path.join(current, entry.name);
      if (entry.isDirectory()) directories.push(name);
      else unlessAbsent(() => unlinkSync(name));
      count += 1;
      if (count % entriesPerBreath === 0) await breathe();
    }
  }
  for (const current of directories.toReversed()) unlessAbsent(() => rmdirSync(current));
}

/** Removes a directory that holds nothing but such directories; false if it holds anything else. */
export function removedIfEmpty(directory: string): boolean {
  for (const entry of readdirSync(directory, { withFileTypes: true }))
    if (!entry.isDirectory() || !removedIfEmpty(path.join(directory, entry.name))) return false;
  rmdirSync(directory);
  return true;
}

/** Removes a scratch file, if it can. */
export function removeIfThere(file: string): void {
  try {
    unlinkSync(file);
  } catch {
    // It was moved, or never written. A file that cannot be removed is swept by the next publisher.
  }
}
