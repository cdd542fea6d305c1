import { hasCode } from '../../lib/errors.ts';
import { lockName } from '../../lib/paths.ts';
import { bytesBody, readAll } from '../../storage/body.ts';
import { joinKey, type Key } from '../../storage/key.ts';
import type { RenamingStorage, Storage } from '../../storage/storage.ts';
import type { Holder } from '../catalog.ts';
import { parseHolder } from '../parse.ts';
import { holderToJson } from '../serialise.ts';
import { leaseLost } from './lease.ts';
import { stagingOf } from './staged-copies.ts';
import { isKnownDead } from './this-holder.ts';

/*
 * Reads and writes `.publisher.lock`. It contains one line of JSON, with the holder and the number of times
 * it has renewed the lock.
 */

export const lockKey = joinKey('', lockName);

const lockLimitBytes = 64 * 1024;

/**
 * Creates the lock. Returns false if there already is one. If the response is lost, reads the lock to find
 * out. Throws `storage_not_found` if the unfinished file is suddenly gone. Usually, another contender has
 * taken the lock and cleaned up.
 */
export async function createLock(storage: Storage, holder: Holder): Promise<boolean> {
  try {
    await storage.write(lockKey, bytesBody(lockText(holder, 0)), { mode: 'create' });
    return true;
  } catch (error) {
    if (hasCode(error, 'storage_exists')) return false;
    if (hasCode(error, 'storage_transient') && (await ownsLock(storage, holder))) return true;
    throw error;
  }
}

/** Reports whether the current lock belongs to this holder. */
export async function ownsLock(storage: Storage, holder: Holder): Promise<boolean> {
  const text = await readLock(storage);
  return text !== null && parseLock(text)?.instanceId === holder.instanceId;
}

/**
 * Returns a function that renews the lock for `holder`, or throws `lease_lost` if it belongs to another
 * holder. The renewed lock is renamed into place from the attempt's staging directory. If another attempt has
 * taken over, that directory is gone and the rename fails.
 */
export function renewLock(storage: RenamingStorage, holder: Holder, attemptId: string): () => Promise<void> {
  const next = joinKey(stagingOf(attemptId), 'renewed.lock');
  let renewals = 0;
  return async () => {
    renewals += 1;
    await storage.write(next, bytesBody(lockText(holder, renewals)), { mode: 'scratch' });
    if (!(await ownsLock(storage, holder))) throw leaseLost(storage, 'another publisher holds it');
    await storage.rename([{ from: next, to: lockKey }]);
  };
}

/**
 * Reports whether there is a lock and its holder is known to be dead. Taking the lease then cleans up after
 * that holder.
 */
export async function isAbandoned(storage: Storage): Promise<boolean> {
  if ((await storage.stat(lockKey)) === undefined) return false;
  const text = await readLock(storage);
  const holder = text === null ? null : parseLock(text);
  return holder !== null && isKnownDead(holder);
}

/** Reads the lock, or a copy of it at another key. Returns null if there is none. */
export async function readLock(storage: Storage, key: Key = lockKey): Promise<string | null> {
  try {
    return (await readAll(storage, key, lockLimitBytes)).toString();
  } catch (error) {
    if (hasCode(error, 'storage_not_found')) return null;
    throw error;
  }
}

export function lockText(holder: Holder, renewals: number): string {
  return `${JSON.stringify({ ...holderToJson(holder), renewals })}\n`;
}

/**
 * Returns the holder, or null if the text is not a valid lock, perhaps because it was only written halfway.
 * The only sign that such a lock is stale is that it does not change for a while.
 */
export function parseLock(text: string): Holder | null {
  try {
    return parseHolder(JSON.parse(text), 'lock');
  } catch {
    return null;
  }
}
