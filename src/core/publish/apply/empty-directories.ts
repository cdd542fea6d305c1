import { isReservedPath } from '../../lib/paths.ts';
import { nameOf, type Key } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';

/**
 * Removes directories without files at any depth. A forced replacement must leave only its own outputs, and
 * directories that never had an output are not removed along with a file. Does nothing on object stores.
 * Throws the storage's error.
 */
export async function removeEmptyDirectories(storage: Storage): Promise<void> {
  if (storage.facts.rename !== 'none') await removeIfEmpty(storage, '');
}

/** Returns whether the directory had no files. */
async function removeIfEmpty(storage: Storage, directory: Key | ''): Promise<boolean> {
  let isEmpty = true;
  const directories: Key[] = [];
  for await (const { key, type } of storage.list(directory, { recursive: false })) {
    if (type === 'directory' && !isReservedPath(nameOf(key))) directories.push(key);
    else isEmpty = false;
  }
  for (const below of directories) if (!(await removeIfEmpty(storage, below))) isEmpty = false;
  if (isEmpty && directory !== '') await storage.removeTree(directory);
  return isEmpty;
}
