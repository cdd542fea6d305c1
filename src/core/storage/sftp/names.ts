import pMap from 'p-map';
import { WaybillError } from '../../lib/errors.ts';
import { reservedPrefix } from '../../lib/paths.ts';
import { listedKey, nameOf, joinKey, parentOf, type Key, stagingBeside } from '../key.ts';
import type { SftpDirectories } from './directories.ts';
import { ConnectionLost, isAbsent } from './errors.ts';
import { unlessMissing, type SftpRoot } from './root.ts';

/**
 * Renames and removals, on servers whose rename replaces its target in one step and on those where it fails.
 */
export interface SftpNames {
  /**
   * Renames `from` to `to`, which must be free; false if it is not. Of several processes exactly one
   * succeeds.
   */
  claim(from: Key, to: Key): Promise<boolean>;
  /**
   * Renames `from` to `to`, replacing what is there. If the server cannot do that in one step, the replaced
   * file is moved to `aside` meanwhile.
   */
  replace(from: Key, to: Key, aside: Key): Promise<void>;
  /**
   * Moves a reserved file back if its replacement was interrupted between the two steps. Throws
   * `storage_transient` if that is necessary and the storage is read-only.
   */
  recover(key: Key): Promise<void>;
  /** Succeeds if there is no such file. */
  unlink(key: Key): Promise<void>;
  /**
   * Removes a directory that holds nothing but such directories; false if it holds a file, or if there is no
   * directory.
   */
  removeIfEmpty(directory: Key): Promise<boolean>;
  /** Removes a tree; it is moved aside first, so that another process still writing there fails. */
  removeTree(directory: Key): Promise<void>;
}

const directoriesAtOnce = 8;

export function sftpNames(
  root: SftpRoot,
  directories: SftpDirectories,
  { readOnly }: { readOnly: boolean },
): SftpNames {
  const { at, ask, label, replaces } = root;
  const rename = (from: Key, to: Key): Promise<void> =>
    ask((sftp, done) => sftp.rename(at(from), at(to), done));
  return { claim, replace, recover, unlink, removeIfEmpty, removeTree };

  /**
   * A rename of protocol version 3 fails if the new name is taken (OpenSSH creates a link, so this is one
   * step). Some servers overwrite instead. Looking first protects an existing file from them, but does not
   * prevent simultaneous overwrites.
   */
  async function claim(from: Key, to: Key): Promise<boolean> {
    await recover(to);
    if ((await root.lstat(to)) !== undefined) return false;
    try {
      await rename(from, to);
      return true;
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      if ((await root.lstat(to)) !== undefined && (await root.lstat(from)) !== undefined) return false;
      throw error;
    }
  }

  async function replace(from: Key, to: Key, aside: Key): Promise<void> {
    if (replaces) {
      await ask((sftp, done) => sftp.ext_openssh_rename(at(from), at(to), done));
      return;
    }
    const found = await root.lstat(to);
    if (found?.isDirectory() === true)
      throw new WaybillError('storage_permanent', `${label}: "${to}" is a directory`);
    if (found !== undefined) {
      await unlink(aside);
      await rename(to, aside);
    }
    await rename(from, to);
    if (found !== undefined) await unlink(aside);
  }

  async function recover(key: Key): Promise<void> {
    if (replaces || !nameOf(key).startsWith(reservedPrefix) || parentOf(key).includes(reservedPrefix)) return;
    const replaced = replacedName(key);
    if ((await root.lstat(key)) !== undefined || (await root.lstat(replaced)) === undefined) return;
    if (readOnly) throw new WaybillError('storage_transient', `${label}: "${key}" is being replaced`);
    await rename(replaced, key).catch(async (error: unknown) => {
      // The process that is replacing it is alive and has finished.
      if ((await root.lstat(key)) === undefined) throw error;
    });
  }

  async function unlink(key: Key): Promise<void> {
    try {
      await ask((sftp, done) => sftp.unlink(at(key), done));
    } catch (error) {
      if (isAbsent(error)) return;
      if (error instanceof ConnectionLost) throw error;
      // A directory of that name is not a file, so there is nothing to remove.
      const found = await root.lstat(key);
      if (found !== undefined && !found.isDirectory()) throw error;
    }
  }

  async function removeIfEmpty(directory: Key): Promise<boolean> {
    if ((await root.lstat(directory))?.isDirectory() !== true) return false;
    for (const { key, type } of await root.entries(directory))
      if (type !== 'directory' || !(await removeIfEmpty(key))) return false;
    await unlessMissing(async () => ask((sftp, done) => sftp.rmdir(at(directory), done)));
    directories.forgetBelow(directory);
    return true;
  }

  async function removeTree(directory: Key): Promise<void> {
    // Always the same name, so that a retry finds what an attempt left whose answers were lost.
    const aside = listedKey(`${directory}.gone`);
    await removeAll(aside);
    try {
      await rename(directory, aside);
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      if (isAbsent(error) || (await root.lstat(directory)) === undefined) {
        // An earlier attempt may have got this far.
        await directories.removeEmpty(parentOf(directory));
        return;
      }
      throw error;
    }
    directories.forgetBelow(directory);
    await removeAll(aside);
    await directories.removeEmpty(parentOf(directory));
  }

  async function removeAll(directory: Key): Promise<void> {
    const entries = await root.entries(directory);
    await pMap(entries, async ({ key, type }) => (type === 'directory' ? removeAll(key) : unlink(key)), {
      concurrency: directoriesAtOnce,
    });
    await unlessMissing(async () => ask((sftp, done) => sftp.rmdir(at(directory), done)));
  }
}

/** The key at which a file waits while `write` replaces it in steps. */
export function replacedName(key: Key): Key {
  return joinKey(stagingBeside(key), `replaced-${nameOf(key)}`);
}
