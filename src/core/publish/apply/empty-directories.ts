import { isReservedPath } from '../../reserved-names.ts';
import { nameOf, type Key } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';

/**
 * Removes the directories that hold no file at any depth. A forced replacement leaves nothing that it did not
 * publish, and directories that no output has ever been in are not removed with their last file. Object
 * stores have no directories. Throws the storage's own error.
 */
export async function removeEmptyDirectories(storage: Storage): Promise<void> {
  if (storage.facts.rename !== 'none') await removeIfEmpty(storage, '');
}

/** Whether there was no file in it. */
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
