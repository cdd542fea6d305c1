import pMap from 'p-map';
import { hasCode } from '../errors.ts';
import { measure } from '../storage/body.ts';
import { listedKey } from '../storage/key.ts';
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
