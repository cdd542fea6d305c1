import { isReservedPath } from '../bundle/path-policy.ts';
import { stateName } from '../catalog/catalog.ts';
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

/** As reports name it. */
export function reportedPath(path: Key | ''): string {
  return path === '' ? '.' : path;
}
