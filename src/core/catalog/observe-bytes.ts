import { hasCode } from '../lib/errors.ts';
import { inParallel } from '../lib/parallel.ts';
import { measure } from '../storage/body.ts';
import { listedKey } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import type { Observed, Truth } from './settle.ts';

export interface ObserveBytesOptions {
  /** The number of files read concurrently. Default: 8. */
  concurrency?: number;
  /** Called with the size in bytes of each chunk read. */
  onBytes?: (count: number) => void;
}

/**
 * Reads the files in full. Returns the size in bytes and the digest of each, or null for a file that does not
 * exist. Throws the storage's error if a file cannot be read.
 */
export async function observeBytes(
  storage: Storage,
  paths: readonly string[],
  options: ObserveBytesOptions = {},
): Promise<Observed> {
  const observed = new Map<string, Truth>();
  await observeEach(
    storage,
    paths.map((path) => ({ path })),
    options,
    ({ path }, truth) => observed.set(path, truth),
  );
  return observed;
}

/** Like `observeBytes`, but reports files one by one, in no particular order, and keeps nothing in memory. */
export async function observeEach<T extends { path: string }>(
  storage: Storage,
  files: Iterable<T>,
  { concurrency = 8, onBytes }: ObserveBytesOptions,
  onFile: (file: T, truth: Truth) => void,
): Promise<void> {
  await inParallel(files, concurrency, async (file) => {
    try {
      onFile(file, await measure(storage.read(listedKey(file.path)), onBytes));
    } catch (error) {
      if (!hasCode(error, 'storage_not_found')) throw error;
      onFile(file, null);
    }
  });
}
