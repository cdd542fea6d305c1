import { stagingName } from '../reserved-names.ts';
import { joinKey, nameOf, type Key } from '../storage/key.ts';
import type { Entry, Storage } from '../storage/storage.ts';

const stagingRoot = joinKey('', stagingName);

/** Where an attempt keeps the files that are not in place yet, relative to the bundle path. */
export function stagingOf(attemptId: string): Key {
  return joinKey(stagingRoot, attemptId);
}

/**
 * Where a contender puts a lock that it takes away. Not in the staging directory of its attempt: that is made
 * only by a holder, so that no former holder can have listed it as a stray.
 */
export function stolenLockKey(attemptId: string): Key {
  return joinKey(stagingRoot, `stolen-${attemptId}`);
}

/**
 * What other attempts left in staging. Whoever takes the lock removes it: a former holder that wakes up later
 * finds nothing to rename.
 */
export async function straysInStaging(storage: Storage, attemptId: string): Promise<Entry[]> {
  const strays: Entry[] = [];
  for await (const entry of storage.list(stagingRoot, { recursive: false }))
    if (nameOf(entry.key) !== attemptId) strays.push(entry);
  return strays;
}
