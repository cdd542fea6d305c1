import pMap from 'p-map';
import { WaybillError } from '../../lib/errors.ts';
import { reservedPrefix } from '../../lib/paths.ts';
import { notFound } from '../errors.ts';
import { joinKey, type Key, listedKey, nameOf, parentOf, stagingBeside } from '../key.ts';
import type { SftpDirectories } from './directories.ts';
import { ConnectionLost, isAbsent } from './errors.ts';
import { type SftpRoot, undefinedIfMissing } from './root.ts';

const maxConcurrentRemovals = 8;

/** Returns the key to which a file is moved while `write` replaces it in steps. */
export function replacedName(key: Key): Key {
  return joinKey(stagingBeside(key), `replaced-${nameOf(key)}`);
}

/**
 * Renames and removes entries. Supports servers whose rename replaces its target in one step and servers
 * where such a rename fails.
 */
export class SftpNames {
  readonly #root: SftpRoot;
  readonly #directories: SftpDirectories;
  readonly #readOnly: boolean;

  constructor(root: SftpRoot, directories: SftpDirectories, readOnly: boolean) {
    this.#root = root;
    this.#directories = directories;
    this.#readOnly = readOnly;
  }

  async #rename(from: Key, to: Key): Promise<void> {
    const root = this.#root;
    await root.ask((sftp, done) => sftp.rename(root.at(from), root.at(to), done));
  }

  /**
   * Renames `from` to `to` if `to` is free, or else returns false. If several processes claim `to`, exactly
   * one succeeds.
   *
   * A protocol version 3 rename fails if the new name is taken (OpenSSH creates a hard link, so this is a
   * single step). Some servers overwrite the file instead. Checking first protects an existing file on those
   * servers, but does not prevent concurrent overwrites.
   */
  async claim(from: Key, to: Key): Promise<boolean> {
    await this.recover(to);
    if ((await this.#root.lstat(to)) !== undefined) return false;
    try {
      await this.#rename(from, to);
      return true;
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      if ((await this.#root.lstat(to)) !== undefined && (await this.#root.lstat(from)) !== undefined)
        return false;
      throw error;
    }
  }

  /**
   * Renames `from` to `to`, replacing the file there. If the server cannot do that in one step, the replaced
   * file is temporarily at `aside`.
   */
  async replace(from: Key, to: Key, aside: Key): Promise<void> {
    const root = this.#root;
    if (root.replaces) {
      await root.ask((sftp, done) => sftp.ext_openssh_rename(root.at(from), root.at(to), done));
      return;
    }
    const found = await root.lstat(to);
    if (found?.isDirectory() === true)
      throw new WaybillError('storage_permanent', `${root.label}: "${to}" is a directory`);
    if (found !== undefined) {
      await this.unlink(aside);
      await this.#rename(to, aside);
    }
    await this.#rename(from, to);
    if (found !== undefined) await this.unlink(aside);
  }

  /**
   * Renames `from` to `to`, creating the parent directory and replacing a file or an empty directory. A file
   * that is replaced in steps is kept next to `from`, in the attempt's staging directory, and is swept with
   * it.
   */
  async move(from: Key, to: Key): Promise<void> {
    const replace = async (): Promise<void> =>
      this.#directories.withParent(to, async () => this.replace(from, to, listedKey(`${from}.old`)));
    await replace().catch(async (error: unknown) => {
      if (error instanceof ConnectionLost || !(await this.removeIfEmpty(to))) throw error;
      await replace();
    });
  }

  /**
   * Moves a reserved file back if its replacement was interrupted between the two steps. Throws
   * `storage_transient` if the file has to be moved but the storage is read-only.
   */
  async recover(key: Key): Promise<void> {
    const root = this.#root;
    if (root.replaces) return;
    if (!nameOf(key).startsWith(reservedPrefix) || parentOf(key).includes(reservedPrefix)) return;
    const replaced = replacedName(key);
    if ((await root.lstat(key)) !== undefined || (await root.lstat(replaced)) === undefined) return;
    if (this.#readOnly)
      throw new WaybillError('storage_transient', `${root.label}: "${key}" is being replaced`);
    await this.#rename(replaced, key).catch(async (error: unknown) => {
      // The process that was replacing the file is still alive and has finished.
      if ((await root.lstat(key)) === undefined) throw error;
    });
  }

  /** Moves the file at `key` aside, unless that has already been done. */
  async moveAside(key: Key, aside: Key): Promise<void> {
    if ((await this.#root.lstat(aside)) !== undefined || !(await this.isFile(key))) return;
    await this.#directories.create(parentOf(aside));
    await this.#rename(key, aside);
  }

  /** Moves a file that was kept at `aside` back to `key`. Succeeds if the file is already at `key`. */
  async putBack(aside: Key, key: Key): Promise<void> {
    if (await this.isFile(aside))
      await this.#directories.withParent(key, async () =>
        this.replace(aside, key, listedKey(`${aside}.new`)),
      );
    else if (!(await this.isFile(key))) throw notFound(this.#root, key);
  }

  /** Returns true if the entry is a file or a link. */
  async isFile(key: Key): Promise<boolean> {
    const found = await this.#root.lstat(key);
    return found !== undefined && !found.isDirectory();
  }

  /** Removes a file. Succeeds if there is no such file. */
  async unlink(key: Key): Promise<void> {
    const root = this.#root;
    try {
      await root.ask((sftp, done) => sftp.unlink(root.at(key), done));
    } catch (error) {
      if (isAbsent(error)) return;
      if (error instanceof ConnectionLost) throw error;
      // A directory of that name is not a file, so it is not removed.
      const found = await root.lstat(key);
      if (found !== undefined && !found.isDirectory()) throw error;
    }
  }

  /**
   * Removes a scratch file, and its staging directory if empty. Ignores failures, because staging is swept
   * later.
   */
  async discard(scratch: Key): Promise<void> {
    await this.unlink(scratch)
      .then(async () => this.#directories.removeEmpty(parentOf(scratch)))
      .catch(() => undefined);
  }

  /**
   * Removes a directory that contains only empty directories at any depth. Returns false if it contains a
   * file or does not exist.
   */
  async removeIfEmpty(directory: Key): Promise<boolean> {
    if ((await this.#root.lstat(directory))?.isDirectory() !== true) return false;
    for (const { key, type } of await this.#root.entries(directory))
      if (type !== 'directory' || !(await this.removeIfEmpty(key))) return false;
    await this.#removeDirectory(directory);
    this.#directories.forgetBelow(directory);
    return true;
  }

  /** Removes a tree. It is moved aside first, so that another process still writing there fails. */
  async removeTree(directory: Key): Promise<void> {
    // Always use the same name, so that a retry finds the remains of an attempt whose responses were lost.
    const aside = listedKey(`${directory}.gone`);
    await this.#removeAll(aside);
    try {
      await this.#rename(directory, aside);
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      if (!isAbsent(error) && (await this.#root.lstat(directory)) !== undefined) throw error;
      // An earlier attempt may have gotten this far.
      await this.#directories.removeEmpty(parentOf(directory));
      return;
    }
    this.#directories.forgetBelow(directory);
    await this.#removeAll(aside);
    await this.#directories.removeEmpty(parentOf(directory));
  }

  async #removeAll(directory: Key): Promise<void> {
    await pMap(
      await this.#root.entries(directory),
      async ({ key, type }) => (type === 'directory' ? this.#removeAll(key) : this.unlink(key)),
      { concurrency: maxConcurrentRemovals },
    );
    await this.#removeDirectory(directory);
  }

  /** Removes an empty directory. Succeeds if there is no such directory. */
  async #removeDirectory(directory: Key): Promise<void> {
    const root = this.#root;
    await undefinedIfMissing(async () => root.ask((sftp, done) => sftp.rmdir(root.at(directory), done)));
  }
}
