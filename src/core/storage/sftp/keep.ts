import { notFound } from '../errors.ts';
import { listedKey, parentOf, type Key } from '../key.ts';
import type { Kept, KeptBy } from '../storage.ts';
import type { SftpDirectories } from './directories.ts';
import type { HardLink } from './hard-links.ts';
import type { SftpNames } from './names.ts';
import type { SftpRoot } from './root.ts';

/** Keeps files that are about to be replaced or removed. Rejects as `SftpSession.ask` does. */
export interface SftpKeeper {
  /** As `Storage.keep`. */
  keep(key: Key, aside: Key): Promise<Kept | null>;
  /** As `Storage.putBack`. */
  putBack(kept: Kept): Promise<void>;
  /** Moves the file at `key` aside, unless that was done before. */
  moveAside(key: Key, aside: Key): Promise<void>;
}

/**
 * A file is kept by a hard link if the server offers `hardlink@openssh.com`. Otherwise, or if the server
 * refuses the link for whatever reason, the file is moved aside when it is replaced: copying it would take it
 * through this machine.
 */
export function sftpKeeper(
  root: SftpRoot,
  directories: SftpDirectories,
  names: SftpNames,
  hardLink: HardLink,
): SftpKeeper {
  const { at, ask } = root;

  return {
    async keep(key, aside) {
      const by: KeptBy = (await hardLink(key, aside)) ? 'link' : 'move';
      if (by === 'move' && !(await isFile(key))) return null;
      return { key, aside, by, version: null };
    },

    async putBack({ key, aside }) {
      if (await isFile(aside))
        await directories.withParent(key, async () => names.replace(aside, key, listedKey(`${aside}.new`)));
      // Otherwise it was not moved aside at all, or was put back before.
      else if (!(await isFile(key))) throw notFound(root, key);
    },

    async moveAside(key, aside) {
      if ((await root.lstat(aside)) !== undefined || !(await isFile(key))) return;
      await directories.create(parentOf(aside));
      await ask((sftp, done) => sftp.rename(at(key), at(aside), done));
    },
  };

  async function isFile(key: Key): Promise<boolean> {
    const found = await root.lstat(key);
    return found !== undefined && !found.isDirectory();
  }
}
