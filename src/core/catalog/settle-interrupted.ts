import { listedKey, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import type { Catalog, OutputRecord } from './catalog.ts';
import { observeBytes } from './observe-bytes.ts';
import { pathsToSettle, settle } from './settle.ts';

export interface Settled {
  /** The records that match the files, without the paths that the current attempt handles. */
  outputs: OutputRecord[];
  /** Announced files that do not exist. The interrupted attempt may have left unfinished uploads of them. */
  vanished: Key[];
}

/**
 * Determines the state that an interrupted attempt left. Reads every file that it may have touched, except
 * the `handled` ones, which the current attempt writes or removes. Reads nothing if no attempt was
 * interrupted. Requires the lease.
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
 * Removes the remains of files that an interrupted attempt never finished. Only object stores have such
 * remains: unfinished multipart uploads under the final names. Other storages keep unfinished files in
 * staging, which is swept when the lease is taken. Requires the lease.
 */
export async function sweepUnfinished(storage: Storage, vanished: readonly Key[]): Promise<void> {
  if (storage.facts.rename === 'none') for (const key of vanished) await storage.remove(key);
}
