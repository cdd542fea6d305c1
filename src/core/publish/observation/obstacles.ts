import { inParallel } from '../../lib/parallel.ts';
import { ancestorsOf, type RelativePath } from '../../lib/paths.ts';
import { keyOf, listedKey } from '../../storage/key.ts';
import type { PathSet } from '../decision/recorded-as.ts';
import type { EntryType, Storage } from '../../storage/storage.ts';

const concurrentLooks = 64;

/**
 * Unrecorded entries that block these planned paths, by path: a file or link where a directory is needed, and
 * a directory with unrecorded content at a `recorded` path. Object stores have no directories and therefore
 * no obstacles. Throws the storage's error.
 */
export async function obstaclesTo(
  storage: Pick<Storage, 'facts' | 'stat' | 'list'>,
  paths: readonly RelativePath[],
  recorded: PathSet,
): Promise<Map<string, EntryType>> {
  const obstacles = new Map<string, EntryType>();
  if (storage.facts.rename === 'none') return obstacles;
  const directories = new Set<string>();
  for (const path of paths)
    for (const ancestor of ancestorsOf(path)) if (!recorded.has(ancestor)) directories.add(ancestor);
  await inParallel(directories, concurrentLooks, async (directory) => {
    const found = await storage.stat(listedKey(directory));
    if (found !== undefined && found.type !== 'directory') obstacles.set(directory, found.type);
  });
  await inParallel(paths, concurrentLooks, async (path) => {
    if (recorded.has(path) && (await holdsOthers(storage, path, recorded))) obstacles.set(path, 'directory');
  });
  return obstacles;
}

/** Whether the path is a directory with unrecorded files. */
async function holdsOthers(
  storage: Pick<Storage, 'stat' | 'list'>,
  path: RelativePath,
  recorded: PathSet,
): Promise<boolean> {
  if ((await storage.stat(keyOf(path)))?.type !== 'directory') return false;
  for await (const { key } of storage.list(keyOf(path), { recursive: true }))
    if (!recorded.has(key)) return true;
  return false;
}
