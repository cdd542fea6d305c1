import pMap from 'p-map';
import type { WaybillError } from '../../lib/errors.ts';
import { ancestorsOf } from '../../lib/paths.ts';
import { notADirectory } from '../errors.ts';
import { listedKey, type Key } from '../key.ts';
import type { SftpRoot } from './root.ts';

const requestsAtOnce = 64;

/**
 * The error for a key whose path leads through a symbolic link to something that exists: what is there is not
 * below the root, whatever it is called, and must not be removed. Null if the path is straight, or leads to
 * nothing. Nothing is remembered, because a directory may be replaced by a link at any time.
 */
export async function linkAbove(root: SftpRoot, key: Key): Promise<WaybillError | null> {
  const ancestors = [...ancestorsOf(key)].map(listedKey);
  const found = await Promise.all(ancestors.map(async (ancestor) => root.lstat(ancestor)));
  const link = ancestors.find((_, index) => found[index]?.isSymbolicLink() === true);
  if (link === undefined || (await root.lstat(key)) === undefined) return null;
  return notADirectory(root, link, { isLink: true });
}

/** The first such error of these keys. Each directory is looked at once. */
export async function linkAboveAny(root: SftpRoot, keys: readonly Key[]): Promise<WaybillError | null> {
  const directories = new Set(keys.flatMap((key) => [...ancestorsOf(key)]));
  const links = new Set<string>();
  await pMap(
    directories,
    async (directory) => {
      if ((await root.lstat(listedKey(directory)))?.isSymbolicLink() === true) links.add(directory);
    },
    { concurrency: requestsAtOnce },
  );
  if (links.size === 0) return null;
  for (const key of keys)
    if ([...ancestorsOf(key)].some((directory) => links.has(directory))) {
      const error = await linkAbove(root, key);
      if (error !== null) return error;
    }
  return null;
}
