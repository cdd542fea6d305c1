import { WaybillError } from '../../lib/errors.ts';
import { type Key, listedKey, parentOf, siblingScratch } from '../key.ts';
import { alreadyExists, noLinks } from '../storage-errors.ts';
import { applyMode, type SftpDirectories } from './sftp-directories.ts';
import { DisconnectError, isAbsent, isUnsupported } from './sftp-errors.ts';
import type { SftpNames } from './sftp-names.ts';
import { type SftpRoot, typeOf } from './sftp-root.ts';
import { closeFile, requireSize, statOf, syncFile } from './transfer.ts';

/** If a file has two hard links and another user can write to it, they would change it under both names. */
const writableByOthers = 0o022;
/** The number of bytes copied per request. It is small enough for the server to respond in time. */
const bytesPerRequest = 32 << 20;

/**
 * Creates symbolic links, hard links, and copies on the server. Since we may end up on a different server
 * after a reconnect, its features are then probed again. Methods throw the errors of `SftpSession.ask`.
 */
export class SftpLinks {
  readonly #root: SftpRoot;
  readonly #directories: SftpDirectories;
  readonly #names: SftpNames;
  #hasHardLinks = true;
  /** False until a hard link has been verified. Some servers (rclone) claim success without creating one. */
  #isHardLinkProven = false;
  #copies = true;
  #isSwapped: Promise<boolean> | undefined;

  constructor(root: SftpRoot, directories: SftpDirectories, names: SftpNames) {
    this.#root = root;
    this.#directories = directories;
    this.#names = names;
    root.onReconnect(() => {
      this.#hasHardLinks = true;
      this.#isHardLinkProven = false;
      this.#copies = true;
      this.#isSwapped = undefined;
    });
  }

  /**
   * Creates a hard link to `from`. Returns false if the server does not support hard links, or refuses to
   * create this one. Throws `DisconnectError`.
   */
  async hardLink(from: Key, to: Key): Promise<boolean> {
    const root = this.#root;
    if (!this.#hasHardLinks) return false;
    await this.#directories.create(parentOf(to));
    try {
      await root.ask((sftp, done) => sftp.ext_openssh_hardlink(root.at(from), root.at(to), done));
      this.#isHardLinkProven ||= (await root.lstat(to)) !== undefined;
      this.#hasHardLinks = this.#isHardLinkProven;
      return this.#isHardLinkProven;
    } catch (error) {
      if (error instanceof DisconnectError) throw error;
      // ssh2 does not even send a request that the server does not support.
      if (isUnsupported(error)) this.#hasHardLinks = false;
      return false;
    }
  }

  /**
   * Implements `Storage.duplicate`, where `to` must not exist. Uses a hard link if the server supports that.
   * Otherwise, the server makes a copy if it supports `copy-data`.
   */
  async duplicate(from: Key, to: Key): Promise<'link' | 'copy' | null> {
    const root = this.#root;
    const found = await root.lstat(from);
    if (found === undefined || typeOf(found) !== 'file') return null;
    if ((found.mode & writableByOthers) === 0 && (await this.hardLink(from, to))) return 'link';
    if (!this.#copies) return null;
    try {
      await this.#directories.withParent(to, async () => this.#copy(from, to, found.size));
      return 'copy';
    } catch (error) {
      if (error instanceof DisconnectError || error instanceof WaybillError) throw error;
      await root.ask((sftp, done) => sftp.unlink(root.at(to), done)).catch(throwUnlessLost);
      if (isUnsupported(error)) this.#copies = false;
      else if (!isAbsent(error)) throw error;
      return null;
    }
  }

  async #copy(from: Key, to: Key, size: number): Promise<void> {
    const { modes } = this.#root;
    const source = this.#root.at(from);
    const target = this.#root.at(to);
    const session = await this.#root.connected();
    const reading = await session.ask<Buffer>((sftp, done) => sftp.open(source, 'r', done));
    try {
      const writing = await session.ask<Buffer>((sftp, done) =>
        sftp.open(target, 'w', { mode: modes.file }, done),
      );
      try {
        for (let at = 0; at < size; at += bytesPerRequest) {
          const length = Math.min(bytesPerRequest, size - at);
          await session.ask((sftp, done) => sftp.ext_copy_data(reading, at, length, writing, at, done));
        }
        await syncFile(session, writing);
        const stored = await statOf(session, writing);
        requireSize(stored.size, size);
        await applyMode(session, target, stored, modes.file);
      } finally {
        await closeFile(session, writing).catch(throwUnlessLost);
      }
    } finally {
      await closeFile(session, reading).catch(throwUnlessLost);
    }
  }

  /** Implements `Storage.readLink`. */
  async read(key: Key): Promise<string | null> {
    const root = this.#root;
    if ((await root.lstat(key))?.isSymbolicLink() !== true) return null;
    return root.ask<string>((sftp, done) => sftp.readlink(root.at(key), done));
  }

  /** Implements `Storage.replaceLink`. */
  async replace(key: Key, target: Key): Promise<void> {
    const root = this.#root;
    const found = await root.lstat(key);
    if (found !== undefined && !found.isSymbolicLink()) throw alreadyExists(root, key);
    const scratch = siblingScratch(key);
    try {
      await this.#directories.withParent(scratch, async () => this.#make(target, scratch));
      await this.#names.replace(scratch, key, listedKey(`${scratch}.old`));
    } finally {
      await this.#names.discard(scratch);
    }
  }

  async #make(target: Key, scratch: Key): Promise<void> {
    const link = this.#root.at(scratch);
    try {
      this.#isSwapped ??= this.#findOrder(scratch);
      this.#isSwapped.catch(() => (this.#isSwapped = undefined));
      await ((await this.#isSwapped) ? this.#symlink(link, target) : this.#symlink(target, link));
      // ProFTPD makes the target absolute, and requests made later then follow the link.
      const made = await this.#root.ask<string>((sftp, done) => sftp.readlink(link, done));
      if (made !== target) throw noLinks(this.#root, new Error(`the server made a link to "${made}"`));
    } catch (error) {
      const isMissing = isUnsupported(error) && !(error instanceof WaybillError);
      throw isMissing ? noLinks(this.#root, error) : error;
    }
  }

  async #symlink(target: string, link: string): Promise<void> {
    await this.#root.ask((sftp, done) => sftp.symlink(target, link, done));
  }

  async #findOrder(scratch: Key): Promise<boolean> {
    const root = this.#root;
    const one = listedKey(`${scratch}.one`);
    const other = listedKey(`${scratch}.other`);
    const keyOf = (file: string): Key => (file === root.at(one) ? one : other);
    return expectsSwappedPaths(
      {
        symlink: async (target, link) => this.#symlink(target, link),
        isLink: async (file) => (await root.lstat(keyOf(file)))?.isSymbolicLink() === true,
        unlink: async (file) => this.#names.unlink(keyOf(file)),
      },
      [root.at(one), root.at(other)],
    );
  }
}

/** The requests needed by `expectsSwappedPaths`. All paths must be in the form that the server expects. */
export interface LinkRequests {
  /**
   * Creates a symbolic link. If the server swaps its paths, the link ends up at `target` and points to
   * `link`.
   */
  readonly symlink: (target: string, link: string) => Promise<void>;
  readonly isLink: (file: string) => Promise<boolean>;
  readonly unlink: (file: string) => Promise<void>;
}

/**
 * Finds out whether the server expects the two paths of a SYMLINK request in the opposite order. OpenSSH does
 * so, in violation of the protocol, and `ssh2` takes this into account. Other servers either stick to the
 * protocol or imitate OpenSSH. To find out, this creates a link between two unused names, and checks which of
 * them is the link. Throws `storage_permanent` if neither of them is.
 */
export async function expectsSwappedPaths(
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
  throw new WaybillError('storage_permanent', 'the server reported success but created no link');
}

/**
 * Ignores other errors. The connection closes any file that is still open, and partial files are cleaned up
 * later.
 */
function throwUnlessLost(error: unknown): void {
  if (error instanceof DisconnectError) throw error;
}
