import pMap from 'p-map';
import { WaybillError } from '../../lib/errors.ts';
import { reservedPrefix } from '../../lib/paths.ts';
import { joinKey, type Key, listedKey, nameOf, parentOf, siblingStaging } from '../key.ts';
import { notFound } from '../storage-errors.ts';
import { ListingLimit } from '../untrusted.ts';
import type { SftpDirectories } from './sftp-directories.ts';
import { DisconnectError, isAbsent } from './sftp-errors.ts';
import { type SftpRoot, undefinedIfMissing } from './sftp-root.ts';

const maxConcurrentRemovals = 8;

/** Returns where a file is moved to while `write` replaces it in several steps. */
export function replacedFileKey(key: Key): Key {
  return joinKey(siblingStaging(key), `replaced-${nameOf(key)}`);
}

/**
 * Renames and deletes entries. On some servers, renaming replaces the target in a single step. On others, it
 * fails if the target exists. This works with both.
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
   * Renames `from` to `to`, unless there already is something at `to`, in which case it returns false. If
   * several processes try this at the same time, exactly one of them succeeds.
   *
   * In version 3 of the protocol, renaming fails if the new name is taken. OpenSSH uses a hard link for this,
   * so it is a single step. Some other servers overwrite the file. On these servers, checking first protects
   * existing files, but if several processes get here at the same time, one may still overwrite another's.
   */
  async claim(from: Key, to: Key): Promise<boolean> {
    await this.recover(to);
    if ((await this.#root.lstat(to)) !== undefined) return false;
    try {
      await this.#rename(from, to);
      return true;
    } catch (error) {
      if (error instanceof DisconnectError) throw error;
      if ((await this.#root.lstat(to)) !== undefined && (await this.#root.lstat(from)) !== undefined)
        return false;
      throw error;
    }
  }

  /**
   * Renames `from` to `to`, and replaces the file there. If the server cannot do this in a single step, the
   * old file is at `aside` for a moment.
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
   * Renames `from` to `to`. Creates the parent directory if necessary, and replaces a file or an empty
   * directory. If it takes several steps to replace a file, the old one is kept next to `from` in the staging
   * directory, and is cleaned up with it.
   */
  async move(from: Key, to: Key): Promise<void> {
    const replace = async (): Promise<void> =>
      this.#directories.withParent(to, async () => this.replace(from, to, listedKey(`${from}.old`)));
    await replace().catch(async (error: unknown) => {
      if (error instanceof DisconnectError || !(await this.removeIfEmpty(to))) throw error;
      await replace();
    });
  }

  /**
   * If a reserved file was being replaced and the replacement was interrupted between its two steps, moves
   * the file back. Throws `storage_transient` if that is necessary but the storage is read-only.
   */
  async recover(key: Key): Promise<void> {
    const root = this.#root;
    if (root.replaces) return;
    if (!nameOf(key).startsWith(reservedPrefix) || parentOf(key).includes(reservedPrefix)) return;
    const replaced = replacedFileKey(key);
    if ((await root.lstat(key)) !== undefined || (await root.lstat(replaced)) === undefined) return;
    if (this.#readOnly)
      throw new WaybillError('storage_transient', `${root.label}: "${key}" is being replaced`);
    await this.#rename(replaced, key).catch(async (error: unknown) => {
      // The process that was replacing the file has not died after all, and is done now.
      if ((await root.lstat(key)) === undefined) throw error;
    });
  }

  /** Moves the file at `key` aside, unless that has already happened. */
  async moveAside(key: Key, aside: Key): Promise<void> {
    if ((await this.#root.lstat(aside)) !== undefined || !(await this.isFile(key))) return;
    await this.#directories.create(parentOf(aside));
    await this.#rename(key, aside);
  }

  /** Moves a file from `aside` back to `key`. Also succeeds if it is already at `key`. */
  async restore(aside: Key, key: Key): Promise<void> {
    if (await this.isFile(aside))
      await this.#directories.withParent(key, async () =>
        this.replace(aside, key, listedKey(`${aside}.new`)),
      );
    else if (!(await this.isFile(key))) throw notFound(this.#root, key);
  }

  /** Returns true if it is a file or a link. */
  async isFile(key: Key): Promise<boolean> {
    const found = await this.#root.lstat(key);
    return found !== undefined && !found.isDirectory();
  }

  /** Deletes a file if it exists. */
  async unlink(key: Key): Promise<void> {
    const root = this.#root;
    try {
      await root.ask((sftp, done) => sftp.unlink(root.at(key), done));
    } catch (error) {
      if (isAbsent(error)) return;
      if (error instanceof DisconnectError) throw error;
      // If it is a directory, there is no such file, and the directory is not deleted.
      const found = await root.lstat(key);
      if (found !== undefined && !found.isDirectory()) throw error;
    }
  }

  /**
   * Deletes a scratch file, and its staging directory if that is empty. Failures are ignored, because staging
   * is cleaned up later anyway.
   */
  async discard(scratch: Key): Promise<void> {
    await this.unlink(scratch)
      .then(async () => this.#directories.removeEmpty(parentOf(scratch)))
      .catch(() => undefined);
  }

  /**
   * Deletes a directory if there is nothing in it but empty directories, at any depth. Returns false if there
   * is a file in it, or if it does not exist.
   */
  async removeIfEmpty(directory: Key, limit = new ListingLimit()): Promise<boolean> {
    if ((await this.#root.lstat(directory))?.isDirectory() !== true) return false;
    for (const { key, type } of await this.#root.entries(directory, limit))
      if (type !== 'directory' || !(await this.removeIfEmpty(key, limit))) return false;
    await this.#removeDirectory(directory);
    this.#directories.forgetBelow(directory);
    return true;
  }

  /**
   * Deletes a directory tree. It is moved first, so that other processes that are still writing to it fail.
   */
  async removeTree(directory: Key): Promise<void> {
    // The name must always be the same. If the responses are lost, a retry then finds what the first attempt
    // left.
    const aside = listedKey(`${directory}.gone`);
    await this.#removeAll(aside);
    try {
      await this.#rename(directory, aside);
    } catch (error) {
      if (error instanceof DisconnectError) throw error;
      if (!isAbsent(error) && (await this.#root.lstat(directory)) !== undefined) throw error;
      // An earlier attempt may have come this far.
      await this.#directories.removeEmpty(parentOf(directory));
      return;
    }
    this.#directories.forgetBelow(directory);
    await this.#removeAll(aside);
    await this.#directories.removeEmpty(parentOf(directory));
  }

  async #removeAll(directory: Key, limit = new ListingLimit()): Promise<void> {
    await pMap(
      await this.#root.entries(directory, limit),
      async ({ key, type }) => (type === 'directory' ? this.#removeAll(key, limit) : this.unlink(key)),
      { concurrency: maxConcurrentRemovals },
    );
    await this.#removeDirectory(directory);
  }

  /** Deletes an empty directory if it exists. */
  async #removeDirectory(directory: Key): Promise<void> {
    const root = this.#root;
    await undefinedIfMissing(async () => root.ask((sftp, done) => sftp.rmdir(root.at(directory), done)));
  }
}
