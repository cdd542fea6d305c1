import pMap from 'p-map';
import { hasCode } from '../errors.ts';
import { measure } from '../storage/body.ts';
import { listedKey } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import type { Observed } from './settle.ts';

export interface ObserveBytesOptions {
  /** Files read at once; 8 by default. */
  concurrency?: number;
  /** Called with the size in bytes of each chunk read. */
  onBytes?: (count: number) => void;
}

/**
 * Reads these files in full and returns the size in bytes and the digest of each, null for a file that does
 * not exist. Throws the storage's own error if a file cannot be read.
 */
export async function observeBytes(
  storage: Storage,
  paths: readonly string[],
  { concurrency = 8, onBytes }: ObserveBytesOptions = {},
): Promise<Observed> {
  const entries = await pMap(
    paths,
    async (path) => {
      try {
        return [path, await measure(storage.read(listedKey(path)), onBytes)] as const;
      } catch (error) {
        if (hasCode(error, 'storage_not_found')) return [path, null] as const;
        throw error;
      }
    },
    { concurrency },
  );
  return new Map(entries);
}
