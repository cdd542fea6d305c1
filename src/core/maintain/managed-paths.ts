import { isReservedPath } from '../reserved-names.ts';
import { stateName } from '../reserved-names.ts';
import { WaybillError } from '../errors.ts';
import { nameOf, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';

/** Every managed bundle path of a destination, the root being ''; parents before children. */
export async function managedPaths(storage: Storage): Promise<(Key | '')[]> {
  const managed: (Key | '')[] = [];
  const pending: (Key | '')[] = [''];
  for (let directory = pending.shift(); directory !== undefined; directory = pending.shift()) {
    for await (const { key, type } of storage.list(directory, { recursive: false })) {
      const name = nameOf(key);
      if (name === stateName && type === 'file') managed.push(directory);
      else if (type === 'directory' && !isReservedPath(name)) pending.push(key);
    }
  }
  return managed;
}

/** The same, for work that makes no sense where nothing was published: throws `bundle_not_found`. */
export async function requireManagedPaths(storage: Storage): Promise<(Key | '')[]> {
  const paths = await managedPaths(storage);
  if (paths.length > 0) return paths;
  throw new WaybillError(
    'bundle_not_found',
    `the destination holds no ${stateName}: nothing was published to it yet`,
    {
      hint: 'publish first, or check the path of the destination',
    },
  );
}

/** As reports name it. */
export function reportedPath(path: Key | ''): string {
  return path === '' ? '.' : path;
}
