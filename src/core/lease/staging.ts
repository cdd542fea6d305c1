import { readState } from '../catalog/store.ts';
import { stagingName } from '../reserved-names.ts';
import { joinKey, nameOf, type Key } from '../storage/key.ts';
import type { Entry, Storage } from '../storage/storage.ts';

/** Below it each attempt has a directory of its own. */
export const stagingRoot = joinKey('', stagingName);

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

/**
 * Removes the copies that other attempts left in the staging of an object store. Needs the lease. Files
 * directly in staging are left alone: they are probes of publishers that may be alive.
 */
export async function sweepCopies(
  storage: Storage,
  { attemptId, check }: { attemptId: string; check: () => void },
): Promise<void> {
  for (const { key, type } of await straysInStaging(storage, attemptId)) {
    if (type !== 'directory') continue;
    check();
    await storage.removeTree(key);
  }
}

/**
 * Removes what attempts that are over left in the staging of an object store. Needs no lease: an attempt
 * writes its intent before it stages anything, so one that has something in staging and no intent in a state
 * that is read afterwards has committed, was undone, or lost its lease.
 */
export async function sweepFinished(storage: Storage): Promise<void> {
  const strays = await straysInStaging(storage, '');
  if (!strays.some(({ type }) => type === 'directory')) return;
  const { state } = await readState(storage);
  const current = state.kind === 'valid' ? (state.catalog.pending?.attemptId ?? '') : '';
  await sweepCopies(storage, { attemptId: current, check: () => undefined });
}
