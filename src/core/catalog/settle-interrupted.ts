import { listedKey, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import type { Catalog, OutputRecord } from './catalog.ts';
import { observeBytes } from './observe-bytes.ts';
import { pathsToSettle, settle } from './settle.ts';

export interface Settled {
  /** The records as they really are, without the paths that the coming attempt handles. */
  outputs: OutputRecord[];
  /** Files that the interrupted attempt announced and that do not exist: it may have left parts of them. */
  vanished: Key[];
}

/**
 * Finds out what an interrupted attempt left, by reading every file that it may have touched and that the
 * coming attempt does not handle (write or remove) itself. Reads nothing if no attempt was interrupted. Needs
 * the lease.
 */
export async function settleInterrupted(
  storage: Storage,
  catalog: Catalog,
  handled: ReadonlySet<string> = new Set(),
): Promise<Settled> {
  const observed = await observeBytes(storage, pathsToSettle(catalog, handled));
  return {
    outputs: settle(catalog, observed).filter(({ path }) => !handled.has(path)),
    vanished: [...observed].flatMap(([path, truth]) => (truth === null ? [listedKey(path)] : [])),
  };
}

/**
 * Removes what an interrupted attempt left of files that it never finished. Storages that can rename keep
 * unfinished files in staging, which is swept with the lease; object stores keep them (unfinished multipart
 * uploads) under their final names. Needs the lease.
 */
export async function sweepUnfinished(storage: Storage, vanished: readonly Key[]): Promise<void> {
  if (storage.facts.rename === 'none') for (const key of vanished) await storage.remove(key);
}
