import { hasCode } from '../lib/errors.ts';
import { inParallel } from '../lib/parallel.ts';
import { measure } from '../storage/body.ts';
import { type Key, listedKey } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import type { Catalog, OutputRecord } from './catalog.ts';
import { type ActualContent, type Observed, pathsToSettle, settle } from './settle.ts';

export interface Settled {
  /** The records that match the files, excluding paths that the current attempt handles. */
  outputs: OutputRecord[];
  /** Announced files that do not exist. The interrupted attempt may have left unfinished uploads for them. */
  vanished: Key[];
}

/**
 * Determines the state that an interrupted attempt left behind. Reads every file that it may have touched,
 * except the `handled` ones, which the current attempt writes or removes. Reads nothing if no attempt was
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
    vanished: [...observed].flatMap(([path, actual]) => (actual === null ? [listedKey(path)] : [])),
  };
}

/**
 * Removes the remains of files that an interrupted attempt never finished. Only object stores have such
 * remains: unfinished multipart uploads under the final names. Other storages keep unfinished files in
 * staging, which is swept when the lease is taken. Requires the lease.
 */
export async function sweepUnfinished(storage: Storage, vanished: readonly Key[]): Promise<void> {
  if (storage.rename === undefined) for (const key of vanished) await storage.remove(key);
}

interface ObserveBytesOptions {
  /** The number of files read concurrently. Default: 8. */
  concurrency?: number;
  /** Called with the size in bytes of each chunk read. */
  onBytes?: (count: number) => void;
}

/**
 * Reads the files in full. Returns each file's size in bytes and digest, or null if the file does not exist.
 * Throws the storage's error if a file cannot be read.
 */
export async function observeBytes(
  storage: Storage,
  paths: readonly string[],
  options: ObserveBytesOptions = {},
): Promise<Observed> {
  const observed = new Map<string, ActualContent>();
  await observeEach(
    storage,
    paths.map((path) => ({ path })),
    options,
    ({ path }, actual) => observed.set(path, actual),
  );
  return observed;
}

/** Like `observeBytes`, but reports files one by one, in no particular order, and keeps nothing in memory. */
export async function observeEach<T extends { path: string }>(
  storage: Storage,
  files: Iterable<T>,
  { concurrency = 8, onBytes }: ObserveBytesOptions,
  onFile: (file: T, actual: ActualContent) => void,
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
