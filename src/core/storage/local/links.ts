import { linkSync, lstatSync, readlinkSync, renameSync, symlinkSync, unlinkSync } from 'node:fs';
import { ancestorsOf } from '../../lib/paths.ts';
import type { WaybillError } from '../../lib/errors.ts';
import { alreadyExists, notADirectory } from '../errors.ts';
import { listedKey, parentOf, type Key } from '../key.ts';
import { scratchBeside, stagingBeside } from '../scratch-key.ts';
import type { Storage } from '../storage.ts';
import type { LocalDirectories } from './directories.ts';
import { errnoOf, isAbsent, unlessAbsent } from './errors.ts';
import type { DirectoryHandles } from './handles.ts';
import { removeIfThere } from './remove-tree.ts';

/** Hard links and symbolic links. Throws system errors as Node.js reports them. */
export interface LocalLinks {
  /** As `Storage.duplicate`. */
  duplicate(from: Key, to: Key): Promise<'link' | null>;
  /** As `Storage.readLink`. */
  read(key: Key): string | null;
  /** As `Storage.replaceLink`. */
  replace(key: Key, target: Key): Promise<void>;
}

/** Whoever may change a file that has two names changes both. */
const writableByOthers = 0o022;
/** Another file system, a file of another user, too many names, or a file system without hard links. */
const refusals = new Set(['EXDEV', 'EPERM', 'EACCES', 'EMLINK', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']);

/** `renamed` is called with each directory in which a name was made. Only tests pass their own `link`. */
export function localLinks(
  storage: Pick<Storage, 'label'>,
  handles: DirectoryHandles,
  directories: LocalDirectories,
  renamed: (directory: Key | '') => void,
  link: (from: string, to: string) => void = linkSync,
): LocalLinks {
  const at = (key: Key): string => handles.at(key);
  return {
    async duplicate(from, to) {
      const found = unlessAbsent(() => lstatSync(at(from)));
      const mayBeShared = found?.isFile() === true && (found.mode & writableByOthers) === 0;
      removeAt(to);
      if (!mayBeShared) return null;
      try {
        await directories.withParent(to, async () => link(at(from), at(to)));
      } catch (error) {
        const isGone = isAbsent(error) && unlessAbsent(() => lstatSync(at(from))) === undefined;
        if (!isGone && !refusals.has(errnoOf(error) ?? '')) throw error;
        return null;
      }
      renamed(parentOf(to));
      return 'link';
    },

    read(key) {
      const isLink = unlessAbsent(() => lstatSync(at(key)))?.isSymbolicLink() === true;
      return isLink ? readlinkSync(at(key)) : null;
    },

    async replace(key, target) {
      const scratch = scratchBeside(key);
      try {
        await directories.withParent(scratch, async () => symlinkSync(target, at(scratch)));
        const found = lstatSync(at(key), { throwIfNoEntry: false });
        if (found !== undefined && !found.isSymbolicLink()) throw alreadyExists(storage, key);
        renameSync(at(scratch), at(key));
        await handles.makeDurable([], [parentOf(key)]);
      } finally {
        removeIfThere(handles, scratch);
        if (!directories.isKept(stagingBeside(key))) directories.removeEmpty(stagingBeside(key));
      }
    },
  };

  function removeAt(key: Key): void {
    unlessAbsent(() => unlinkSync(at(key)));
  }
}

/**
 * The error for a key whose path leads through a symbolic link to something that exists: what is there is not
 * below the root, whatever it is called, and must not be removed. Null if the path is straight, or leads to
 * nothing. Throws the system error if it cannot be looked at.
 */
export function linkAbove(
  storage: Pick<Storage, 'label'>,
  handles: DirectoryHandles,
  key: Key,
): WaybillError | null {
  for (const ancestor of ancestorsOf(key)) {
    const directory = listedKey(ancestor);
    const found = unlessAbsent(() => lstatSync(handles.at(directory)));
    if (found?.isSymbolicLink() !== true) continue;
    const leadsSomewhere = lstatSync(handles.absolute(key), { throwIfNoEntry: false }) !== undefined;
    return leadsSomewhere ? notADirectory(storage, directory, { isLink: true }) : null;
  }
  return null;
}
