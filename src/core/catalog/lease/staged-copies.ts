import { stagingName } from '../../lib/paths.ts';
import { joinKey, type Key, nameOf } from '../../storage/key.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { readState } from '../catalog-store.ts';

/*
 * Names the staging directories of attempts, and deletes those of earlier ones.
 */

/** The parent of the attempts' staging directories. */
export const stagingRoot = joinKey('', stagingName);

/** Returns the directory for the attempt's unfinished files, relative to the bundle path. */
export function stagingOf(attemptId: string): Key {
  return joinKey(stagingRoot, attemptId);
}

/**
 * Returns the key that a stale lock is moved to. It is not inside the attempt's own staging directory. Only a
 * holder may create that one: otherwise, an earlier holder might have listed it among those to delete.
 */
export function stolenLockKey(attemptId: string): Key {
  return joinKey(stagingRoot, `stolen-${attemptId}`);
}

/**
 * Returns what other attempts left in staging. The contender that takes the lock deletes it, so that an
 * earlier holder that wakes up later has no files to rename.
 */
export async function abandonedCopies(storage: Storage, attemptId: string): Promise<Entry[]> {
  const strays: Entry[] = [];
  for await (const entry of storage.list(stagingRoot, { recursive: false }))
    if (nameOf(entry.key) !== attemptId) strays.push(entry);
  return strays;
}

/**
 * Deletes the copies that other attempts left in staging on an object store. Call it only under the lease.
 * Files directly in the staging directory stay, because they may be probes of running publishers.
 */
export async function sweepCopies(
  storage: Storage,
  { attemptId, check }: { attemptId: string; check: () => void },
): Promise<void> {
  for (const { key, type } of await abandonedCopies(storage, attemptId)) {
    if (type !== 'directory') continue;
    check();
    await storage.removeTree(key);
  }
}

/**
 * Deletes the copies that finished attempts left in staging on an object store. Works without the lease,
 * since an attempt writes its intent before it stages anything. If an attempt has files in staging, but its
 * intent is not in a state that is read later, the attempt has been committed or undone, or it has lost its
 * lease.
 */
export async function sweepFinished(storage: Storage): Promise<void> {
  const strays = await abandonedCopies(storage, '');
  if (!strays.some(({ type }) => type === 'directory')) return;
  const { state } = await readState(storage);
  const current = state.kind === 'valid' ? (state.catalog.pending?.attemptId ?? '') : '';
  await sweepCopies(storage, { attemptId: current, check: () => undefined });
}
