import { hasCode } from '../lib/errors.ts';
import { inParallel } from '../lib/parallel.ts';
import { sizeAndDigest } from '../storage/body.ts';
import { type Key, listedKey } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import type { Catalog, OutputRecord } from './catalog.ts';
import { type ActualContent, type ObservedContents, pathsToSettle, settle } from './settle.ts';

export interface SettledOutputs {
  /**
   * The records, corrected to match the files. Paths that the current attempt takes care of are not included.
   */
  outputs: OutputRecord[];
  /** Announced files that do not exist. There may be unfinished uploads for them. */
  vanished: Key[];
}

/**
 * Finds out how far an interrupted attempt got. Reads each file that it may have touched, except those in
 * `handled`, which the current attempt writes or removes anyway. If no attempt was interrupted, reads
 * nothing. Call it only under the lease.
 */
export async function settleInterrupted(
  storage: Storage,
  catalog: Catalog,
  handled: ReadonlySet<string> = new Set(),
): Promise<SettledOutputs> {
  const observed = await observeBytes(storage, pathsToSettle(catalog, handled));
  return {
    outputs: settle(catalog, observed).filter(({ path }) => !handled.has(path)),
    vanished: [...observed].flatMap(([path, actual]) => (actual === null ? [listedKey(path)] : [])),
  };
}

/**
 * Deletes uploads that an interrupted attempt never finished. They exist only on object stores, as incomplete
 * multipart uploads under the final names. Other storage has unfinished files in the staging directory, which
 * is deleted when the lease is taken. Call it only under the lease.
 */
export async function sweepUnfinished(storage: Storage, vanished: readonly Key[]): Promise<void> {
  if (storage.rename === undefined) for (const key of vanished) await storage.remove(key);
}

interface ObserveBytesOptions {
  /** How many files to read at a time. Default: 8. */
  concurrency?: number;
  /** Called with the size of each chunk, in bytes. */
  onBytes?: (count: number) => void;
}

interface ObserveEachOptions<T> extends ObserveBytesOptions {
  /** Called for a directory, a link or a special file. By default, the storage's error is thrown. */
  onNonFile?: (file: T) => void;
}

/**
 * Reads the files completely. Returns the size in bytes and the digest of each file, or null if it does not
 * exist. Throws the storage's error if a file cannot be read.
 */
export async function observeBytes(
  storage: Storage,
  paths: readonly string[],
  options: ObserveBytesOptions = {},
): Promise<ObservedContents> {
  const observed = new Map<string, ActualContent>();
  await observeEach(
    storage,
    paths.map((path) => ({ path })),
    options,
    ({ path }, actual) => observed.set(path, actual),
  );
  return observed;
}

/** Like `observeBytes`, but reports the files one at a time, in no particular order, to save memory. */
export async function observeEach<T extends { path: string }>(
  storage: Storage,
  files: Iterable<T>,
  { concurrency = 8, onBytes, onNonFile }: ObserveEachOptions<T>,
  onFile: (file: T, actual: ActualContent) => void,
): Promise<void> {
  await inParallel(files, concurrency, async (file) => {
    const key = listedKey(file.path);
    try {
      onFile(file, await sizeAndDigest(storage.read(key), onBytes));
    } catch (error) {
      if (hasCode(error, 'storage_not_found')) onFile(file, null);
      else if (onNonFile !== undefined && (await isNonFile(storage, key))) onNonFile(file);
      else throw error;
    }
  });
}

/** Reports whether there is a directory, a link or a special file in place of a file. */
export async function isNonFile(storage: Storage, key: Key): Promise<boolean> {
  const found = await storage.stat(key).catch(() => undefined);
  return found !== undefined && found.type !== 'file';
}
