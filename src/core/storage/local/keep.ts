import {
  closeSync,
  constants,
  fchmodSync,
  futimesSync,
  linkSync,
  lstatSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  type Stats,
} from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { notFound } from '../errors.ts';
import { parentOf, type Key } from '../key.ts';
import type { Kept, KeptBy, Storage } from '../storage.ts';
import type { LocalDirectories } from './directories.ts';
import { errnoOf, isAbsent, unlessAbsent } from './errors.ts';
import { openPath, type DirectoryHandles } from './handles.ts';
import { createFile, openToRead } from './open-file.ts';

/** Keeps files that are about to be replaced or removed. Throws system errors as Node.js reports them. */
export interface LocalKeeper {
  /** As `Storage.keep`. */
  keep(key: Key, aside: Key): Promise<Kept | null>;
  /** As `Storage.putBack`. */
  putBack(kept: Kept): Promise<void>;
}

/**
 * A file is kept by a hard link. Where the file system has none, or refuses one (a file of another user, too
 * many links), it is copied instead: moving it aside would leave readers without it for a moment. What cannot
 * be copied either, such as a pipe, is moved.
 *
 * `renamed` is called with each directory in which a name was changed. Only tests pass their own `link`.
 */
export function localKeeper(
  storage: Pick<Storage, 'label'>,
  handles: DirectoryHandles,
  directories: LocalDirectories,
  renamed: (directory: Key | '') => void,
  link: (from: string, to: string) => void = linkSync,
): LocalKeeper {
  const at = (key: Key): string => handles.at(key);
  const lstatIfThere = (key: Key): Stats | undefined => unlessAbsent(() => lstatSync(at(key)));
  /** The files that were copied, by the copies: one that was not replaced may refuse to be. */
  const copied = new Map<Key, Stats>();
  return {
    async keep(key, aside) {
      const by = await keepBy(key, aside);
      return by === null ? null : { key, aside, by, version: null };
    },

    async putBack({ key, aside, by }) {
      const present = lstatIfThere(key);
      const original = copied.get(aside);
      const isUntouched = isSame(present, original) && present?.ctimeMs === original?.ctimeMs;
      if (isUntouched || isSame(present, lstatIfThere(aside)))
        return unlessAbsent(() => unlinkSync(at(aside)));
      try {
        if (by === 'copy' && lstatIfThere(aside)?.isFile() === true) await handles.makeDurable([aside]);
        await directories.withParent(key, async () => renameSync(at(aside), at(key)));
        renamed(parentOf(key));
      } catch (error) {
        // It was not moved aside at all, or was put back before.
        if (isAbsent(error) && lstatIfThere(key) !== undefined) return;
        throw isAbsent(error) ? notFound(storage, key, error) : error;
      }
    },
  };

  async function keepBy(key: Key, aside: Key): Promise<KeptBy | null> {
    try {
      await directories.withParent(aside, async () => link(at(key), at(aside)));
      return 'link';
    } catch (error) {
      const isKept = isSame(lstatIfThere(key), lstatIfThere(aside));
      if (errnoOf(error) === 'EEXIST' && isKept) return 'link';
    }
    const found = lstatIfThere(key);
    if (found === undefined || found.isDirectory()) return null;
    if (!found.isFile() && !found.isSymbolicLink()) return 'move';
    copied.set(aside, found);
    if (found.isSymbolicLink()) {
      await directories.withParent(aside, async () => symlinkSync(readlinkSync(at(key)), at(aside)));
      return 'copy';
    }
    await copyAside(key, aside, found);
    return 'copy';
  }

  /** Opened files are copied, since the names may lead elsewhere while the thread pool copies. */
  async function copyAside(key: Key, aside: Key, { dev, ino, mode, atime, mtime }: Stats): Promise<void> {
    const source = openToRead(storage, key, at(key), { device: dev, inode: ino });
    try {
      const target = await directories.withParent(aside, async () => createFile(at(aside), 0o600));
      try {
        await copyFile(openPath(source, at(key)), openPath(target, at(aside)), constants.COPYFILE_FICLONE);
        fchmodSync(target, mode & 0o7777);
        futimesSync(target, atime, mtime);
      } finally {
        closeSync(target);
      }
    } finally {
      closeSync(source);
    }
  }
}

function isSame(one: Stats | undefined, other: Stats | undefined): boolean {
  return one !== undefined && one.ino === other?.ino && one.dev === other.dev;
}
