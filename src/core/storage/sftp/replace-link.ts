import { WaybillError } from '../../lib/errors.ts';
import { alreadyExists, noLinks } from '../errors.ts';
import { listedKey, parentOf, type Key, scratchBeside } from '../key.ts';
import type { SftpDirectories } from './directories.ts';
import { isUnsupported } from './errors.ts';
import type { SftpNames } from './names.ts';
import type { SftpRoot } from './root.ts';

/** Symbolic links. Rejects as `SftpSession.ask` does. */
export interface SftpLinker {
  /** As `Storage.readLink`. */
  read(key: Key): Promise<string | null>;
  /** As `Storage.replaceLink`. */
  replace(key: Key, target: Key): Promise<void>;
}

/** What is asked of the server; keys and targets as it takes them. */
export interface LinkRequests {
  /** Makes the link `link` that leads to `target`, or the other way round. */
  readonly symlink: (target: string, link: string) => Promise<void>;
  readonly isLink: (file: string) => Promise<boolean>;
  readonly unlink: (file: string) => Promise<void>;
}

/**
 * Whether the server takes the two paths of SYMLINK the other way round than `symlink` sends them. OpenSSH
 * swaps them against the protocol, which `ssh2` knows and allows for; of the others, some follow the protocol
 * and some OpenSSH. So a link between two names that nobody else knows is made, and looked for under both.
 * Throws `storage_permanent` if it is at neither.
 */
export async function takesPathsSwapped(
  { symlink, isLink, unlink }: LinkRequests,
  [one, other]: readonly [string, string],
): Promise<boolean> {
  try {
    await symlink(one, other);
    if (await isLink(other)) return false;
    if (await isLink(one)) return true;
  } finally {
    await Promise.all([unlink(one), unlink(other)]);
  }
  throw new WaybillError('storage_permanent', 'the server says that it made a link, and there is none');
}

export function sftpLinker(root: SftpRoot, directories: SftpDirectories, names: SftpNames): SftpLinker {
  const { at, ask } = root;
  let isSwapped: Promise<boolean> | undefined;
  // It may be another server by then.
  root.onReconnect(() => (isSwapped = undefined));
  const symlink = (target: string, link: string): Promise<void> =>
    ask((sftp, done) => sftp.symlink(target, link, done));

  return {
    async read(key) {
      if ((await root.lstat(key))?.isSymbolicLink() !== true) return null;
      return ask<string>((sftp, done) => sftp.readlink(at(key), done));
    },

    async replace(key, target) {
      if (!root.replaces) throw noLinks(root);
      const found = await root.lstat(key);
      if (found !== undefined && !found.isSymbolicLink()) throw alreadyExists(root, key);
      const scratch = scratchBeside(key);
      try {
        await directories.withParent(scratch, async () => make(target, scratch));
        await names.replace(scratch, key, listedKey(`${scratch}.old`));
      } finally {
        await names
          .unlink(scratch)
          .then(async () => directories.removeEmpty(parentOf(scratch)))
          .catch(() => undefined);
      }
    },
  };

  async function make(target: Key, scratch: Key): Promise<void> {
    try {
      isSwapped ??= findOut(scratch);
      isSwapped.catch(() => (isSwapped = undefined));
      await ((await isSwapped) ? symlink(at(scratch), target) : symlink(target, at(scratch)));
      // ProFTPD makes targets absolute, and then follows the link where it is asked about it.
      const made = await ask<string>((sftp, done) => sftp.readlink(at(scratch), done));
      if (made !== target) throw noLinks(root, new Error(`the server made a link to "${made}"`));
    } catch (error) {
      throw isUnsupported(error) && !(error instanceof WaybillError) ? noLinks(root, error) : error;
    }
  }

  async function findOut(scratch: Key): Promise<boolean> {
    const probes = [listedKey(`${scratch}.one`), listedKey(`${scratch}.other`)] as const;
    const keyAt = new Map(probes.map((key) => [at(key), key]));
    const keyOf = (file: string): Key => keyAt.get(file) as Key;
    return takesPathsSwapped(
      {
        symlink,
        isLink: async (file) => (await root.lstat(keyOf(file)))?.isSymbolicLink() === true,
        unlink: async (file) => names.unlink(keyOf(file)),
      },
      [at(probes[0]), at(probes[1])],
    );
  }
}
