import { hasCode } from '../errors.ts';
import { inParallel } from '../parallel.ts';
import { measure } from '../storage/body.ts';
import { listedKey } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import type { Observed, Truth } from './settle.ts';

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

/** The same, told one by one, in no particular order: of half a million files nothing is kept. */
export async function observeEach<T extends { path: string }>(
  storage: Storage,
  files: Iterable<T>,
  { concurrency = 8, onBytes }: ObserveBytesOptions,
  tell: (file: T, truth: Truth) => void,
): Promise<void> {
  await inParallel(files, concurrency, async (file) => {
    try {
      tell(file, await measure(storage.read(listedKey(file.path)), onBytes));
    } catch (error) {
      if (!hasCode(error, 'storage_not_found')) throw error;
      tell(file, null);
    }
  });
}
