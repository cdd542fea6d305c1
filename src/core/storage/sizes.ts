import { setImmediate as nextTurn } from 'node:timers/promises';
import type { RelativePath } from '../lib/paths.ts';
import type { LocalFiles } from './capabilities.ts';
import { keyOf } from './key.ts';
import type { Storage } from './storage.ts';

/** The parts of a storage that are needed to determine sizes. */
type SizeReader = Pick<Storage, 'localFiles' | 'list' | 'stat'>;

/** After this many files, give timers a chance to run, especially the lease's. */
const filesPerYield = 2048;

/**
 * Determines the sizes in bytes of those files that exist, by path. Links are ignored. If the storage is
 * local, its wrappers are bypassed, and each file takes a single system call, which is ten times as fast. All
 * other storages are listed once. Throws the errors of the storage.
 */
export async function sizesOf(
  storage: SizeReader,
  paths: readonly RelativePath[],
): Promise<ReadonlyMap<string, number>> {
  const { localFiles } = storage;
  return localFiles === undefined ? listed(storage) : askedFor(storage, localFiles, paths);
}

async function listed(storage: SizeReader): Promise<ReadonlyMap<string, number>> {
  const sizes = new Map<string, number>();
  for await (const { key, type, size } of storage.list('', { recursive: true }))
    if (type === 'file') sizes.set(key, size);
  return sizes;
}

async function askedFor(
  storage: SizeReader,
  files: LocalFiles,
  paths: readonly RelativePath[],
): Promise<ReadonlyMap<string, number>> {
  const sizes = new Map<string, number>();
  for (const [index, path] of paths.entries()) {
    if (index % filesPerYield === filesPerYield - 1) await nextTurn();
    try {
      const size = files.sizeOf(keyOf(path));
      if (size !== undefined) sizes.set(path, size);
    } catch {
      // Missing files, retries, and error messages are best handled by the storage.
      const found = await storage.stat(keyOf(path));
      if (found?.type === 'file') sizes.set(path, found.size);
    }
  }
  return sizes;
}
