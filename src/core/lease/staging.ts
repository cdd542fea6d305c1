import { stagingName } from '../reserved-names.ts';
import { joinKey, nameOf, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';

const stagingRoot = joinKey('', stagingName);

/** Where an attempt keeps the files that are not in place yet, relative to the bundle path. */
export function stagingOf(attemptId: string): Key {
  return joinKey(stagingRoot, attemptId);
}

/**
 * Removes what other attempts left in staging. A former holder that wakes up later finds nothing to rename.
 * Needs the lock.
 */
export async function sweepStaging(storage: Storage, attemptId: string): Promise<void> {
  const strays: { key: Key; type: string }[] = [];
  for await (const { key, type } of storage.list(stagingRoot, { recursive: false }))
    if (nameOf(key) !== attemptId) strays.push({ key, type });
  for (const { key, type } of strays)
    await (type === 'directory' ? storage.removeTree(key) : storage.remove(key));
}
