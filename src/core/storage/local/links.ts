import { lstatSync } from 'node:fs';
import { ancestorsOf } from '../../paths.ts';
import type { WaybillError } from '../../errors.ts';
import { notADirectory } from '../errors.ts';
import { listedKey, type Key } from '../key.ts';
import type { Storage } from '../storage.ts';

/**
 * The error for a key whose path leads through a symbolic link to something that exists: what is there is not
 * below the root, whatever it is called, and must not be removed. Null if the path is straight, or leads to
 * nothing. Throws the system error if it cannot be looked at.
 */
export function linkAbove(
  storage: Pick<Storage, 'label'>,
  at: (key: Key) => string,
  key: Key,
): WaybillError | null {
  for (const ancestor of ancestorsOf(key)) {
    const directory = listedKey(ancestor);
    const found = lstatSync(at(directory), { throwIfNoEntry: false });
    if (found?.isSymbolicLink() !== true) continue;
    const leadsSomewhere = lstatSync(at(key), { throwIfNoEntry: false }) !== undefined;
    return leadsSomewhere ? notADirectory(storage, directory, { isLink: true }) : null;
  }
  return null;
}
