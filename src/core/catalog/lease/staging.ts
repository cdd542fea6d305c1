import { stagingName } from '../../lib/paths.ts';
import { joinKey, type Key, nameOf } from '../../storage/key.ts';
import type { Entry, Storage } from '../../storage/storage.ts';
import { readState } from '../store.ts';

/*
 * Names the staging directories of attempts and sweeps those of former attempts.
 */

/** The parent of the attempts' staging directories. */
export const stagingRoot = joinKey('', stagingName);

/** Returns the directory for an attempt's unfinished files, relative to the bundle path. */
export function stagingOf(attemptId: string): Key {
  return joinKey(stagingRoot, attemptId);
}

/**
 * Returns the key to which a contender renames a stale lock. It is outside the staging directory of the
 * attempt, which only a holder creates, so that no former holder can have listed that directory as a stray.
 */
export function stolenLockKey(attemptId: string): Key {
  return joinKey(stagingRoot, `stolen-${attemptId}`);
}

/**
 * Returns the entries that other attempts left in staging. The contender that takes the lock removes them, so
 * that a former holder that resumes later has nothing to rename.
 */
export async function straysInStaging(storage: Storage, attemptId: string): Promise<Entry[]> {
  const strays: Entry[] = [];
  for await (const entry of storage.list(stagingRoot, { recursive: false }))
    if (nameOf(entry.key) !== attemptId) strays.push(entry);
  return strays;
}

/**
 * Removes the copies that other attempts left in the staging of an object store. Requires the lease. Keeps
 * files that are directly in staging, because they may be probes of live publishers.
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
 * Removes the copies that finished attempts left in the staging of an object store. Requires no lease: an
 * attempt writes its intent before it stages anything. If staging contains an attempt's files and a state
 * read afterwards does not contain its intent, the attempt has committed, has been undone or has lost its
 * lease.
 */
export async function sweepFinished(storage: Storage): Promise<void> {
  const strays = await straysInStaging(storage, '');
  if (!strays.some(({ type }) => type === 'directory')) return;
  const { state } = await readState(storage);
  const current = state.kind === 'valid' ? (state.catalog.pending?.attemptId ?? '') : '';
  await sweepCopies(storage, { attemptId: current, check: () => undefined });
}
