import pMap from 'p-map';
import { hasCode } from '../errors.ts';
import { measure } from '../storage/body.ts';
import { listedKey, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import type { Observed } from './settle.ts';

/** Reads these files in full and returns their true sizes and digests, null where there is none. */
export async function observeBytes(
  storage: Storage,
  paths: readonly string[],
  options: { concurrency?: number; onBytes?: (count: number) => void } = {},
): Promise<Observed> {
  const entries = await pMap(
    paths,
    async (path) => {
      try {
        return [path, await measure(storage.read(listedKey(path)), options.onBytes)] as const;
      } catch (error) {
        if (hasCode(error, 'storage_not_found')) return [path, null] as const;
        throw error;
      }
    },
    { concurrency: options.concurrency ?? 8 },
  );
  return new Map(entries);
}

export function absentAmong(observed: Observed): Key[] {
  return [...observed].flatMap(([path, truth]) => (truth === null ? [listedKey(path)] : []));
}

/**
 * Removes what an interrupted attempt left of files that it never finished. Storages that rename keep such
 * things in staging, which is swept with the lease; object stores keep them under the names themselves. Needs
 * the lease.
 */
export async function sweepUnfinished(storage: Storage, absent: readonly Key[]): Promise<void> {
  if (storage.facts.rename === 'none') for (const key of absent) await storage.remove(key);
}
