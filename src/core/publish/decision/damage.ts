import { inParallel } from '../../lib/parallel.ts';
import { type Key, keyOf, parentOf } from '../../storage/key.ts';
import { sizesOf } from '../../storage/sizes.ts';
import type { FileStat, Storage } from '../../storage/storage.ts';
import type { Damage, PlannedOutput } from '../plan.ts';

/**
 * How many requests to run at a time. On remote storage, most of the time is spent waiting for the network.
 */
const maxConcurrentFiles = 64;
const maxConcurrentDirectories = 16;

/** A listing takes about as long as this many `stat` calls. */
const filesPerListing = 8;

export type FileReader = Pick<Storage, 'stat' | 'list' | 'localFiles'>;

/**
 * Compares published files with the outputs they should be, and returns the damaged ones by path. A file that
 * exists with the right size is considered intact. `isRemote` means that every call is a round trip. Throws
 * the storage's error.
 */
export async function findDamage(
  storage: FileReader,
  outputs: readonly PlannedOutput[],
  isRemote: boolean,
): Promise<Map<string, Damage>> {
  if (!isRemote) return findDamageByStat(storage, outputs);
  const directories = new Set(outputs.map(({ path }) => parentOf(keyOf(path))));
  const isListed = directories.size * filesPerListing < outputs.length;
  return isListed ? findDamageByListing(storage, outputs, directories) : findDamageByStat(storage, outputs);
}

async function findDamageByStat(
  storage: FileReader,
  outputs: readonly PlannedOutput[],
): Promise<Map<string, Damage>> {
  const damaged = new Map<string, Damage>();
  const suspects = storage.localFiles === undefined ? outputs : await wrongSizes(storage, outputs);
  await inParallel(suspects, maxConcurrentFiles, async ({ path, size }) => {
    const damage = damageOf(await storage.stat(keyOf(path)), size);
    if (damage !== null) damaged.set(path, damage);
  });
  return damaged;
}

/**
 * Lists each directory once. If that fails, for example because the directory is now a file, falls back to
 * one call per file.
 */
async function findDamageByListing(
  storage: FileReader,
  outputs: readonly PlannedOutput[],
  directories: Iterable<Key | ''>,
): Promise<Map<string, Damage>> {
  const wanted = new Map<string, PlannedOutput>(outputs.map((output) => [output.path, output]));
  const damaged = new Map<string, Damage>(outputs.map(({ path }) => [path, 'missing']));
  await inParallel(directories, maxConcurrentDirectories, async (directory) => {
    try {
      for await (const found of storage.list(directory, { recursive: false })) {
        const damage = damageOf(found, wanted.get(found.key)?.size ?? 0);
        if (damage === null) damaged.delete(found.key);
        else if (damaged.has(found.key)) damaged.set(found.key, damage);
      }
    } catch {
      const there = outputs.filter(({ path }) => parentOf(keyOf(path)) === directory);
      for (const { path } of there) damaged.delete(path);
      for (const [path, damage] of await findDamageByStat(storage, there)) damaged.set(path, damage);
    }
  });
  return damaged;
}

/**
 * Returns the outputs whose size is different in storage. Local sizes are cheap to read, so only these few
 * need a closer look.
 */
async function wrongSizes(storage: FileReader, outputs: readonly PlannedOutput[]): Promise<PlannedOutput[]> {
  const sizes = await sizesOf(
    storage,
    outputs.map(({ path }) => path),
  );
  return outputs.filter(({ path, size }) => sizes.get(path) !== size);
}

function damageOf(found: Pick<FileStat, 'type' | 'size'> | undefined, size: number): Damage | null {
  if (found === undefined) return 'missing';
  if (found.type !== 'file') return 'not_a_file';
  return found.size === size ? null : 'size_differs';
}
