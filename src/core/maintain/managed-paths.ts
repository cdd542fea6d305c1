import { isReservedPath, stateName } from '../reserved-names.ts';
import { WaybillError } from '../errors.ts';
import { nameOf, type Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';

/** Every managed bundle path of a destination, '' for the root; parents before children. */
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

/** Like `managedPaths`; throws `bundle_not_found` if there is none. */
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

/** The bundle path as reports name it: `.` for the root. */
export function reportedPath(path: Key | ''): string {
  return path === '' ? '.' : path;
}
