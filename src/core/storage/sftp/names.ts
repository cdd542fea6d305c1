import pMap from 'p-map';
import { WaybillError } from '../../errors.ts';
import { listedKey, nameOf, joinKey, parentOf, type Key } from '../key.ts';
import type { SftpDirectories } from './directories.ts';
import { answerOf, ConnectionLost, noSuchFile } from './errors.ts';
import { unlessMissing, type SftpPlace } from './root.ts';

/**
 * How files get their names and lose them, on servers that replace in one step and on servers that do not.
 */
export interface SftpNames {
  /**
   * Gives `from` the name `to`, which must be free; answers false where it is not. Of any number of
   * contenders one wins.
   */
  claim(from: Key, to: Key): Promise<boolean>;
  /**
   * Gives `from` the name `to`. What had it waits as `aside` where the server cannot replace, and is removed.
   */
  replace(from: Key, to: Key, aside: Key): Promise<void>;
  /**
   * A file that is missing because its replacement was interrupted between two steps is put back, or shows
   * itself, as it was.
   */
  recover(key: Key): Promise<void>;
  unlink(key: Key): Promise<void>;
  /** Everything below a directory, and it; moved aside first, so that whoever still works in there fails. */
  removeTree(directory: Key): Promise<void>;
}

const directoriesAtOnce = 8;

export function sftpNames(
  place: SftpPlace,
  directories: SftpDirectories,
  { readOnly }: { readOnly: boolean },
): SftpNames {
  const { at, ask, label, replaces } = place;
  const rename = (from: Key, to: Key): Promise<void> =>
    ask((sftp, done) => sftp.rename(at(from), at(to), done));
  return { claim, replace, recover, unlink, removeTree };

  /**
   * A rename of version 3 refuses a name that is taken (OpenSSH makes a link, which is so in one step). Some
   * servers overwrite instead: looking first keeps them from taking what is another's already, though
   * contenders of one moment they do not tell apart.
   */
  async function claim(from: Key, to: Key): Promise<boolean> {
    await recover(to);
    if ((await place.lstat(to)) !== undefined) return false;
    try {
      await rename(from, to);
      return true;
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      if ((await place.lstat(to)) !== undefined && (await place.lstat(from)) !== undefined) return false;
      throw error;
    }
  }

  async function replace(from: Key, to: Key, aside: Key): Promise<void> {
    if (replaces) {
      await ask((sftp, done) => sftp.ext_openssh_rename(at(from), at(to), done));
      return;
    }
    const found = await place.lstat(to);
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
    if (replaces || !nameOf(key).startsWith('.publisher') || parentOf(key).includes('.publisher')) return;
    const replaced = replacedName(key);
    if ((await place.lstat(key)) !== undefined || (await place.lstat(replaced)) === undefined) return;
    if (readOnly) throw new WaybillError('storage_transient', `${label}: "${key}" is being replaced`);
    await rename(replaced, key).catch(async (error: unknown) => {
      // Its owner lives and went on.
      if ((await place.lstat(key)) === undefined) throw error;
    });
  }

  async function unlink(key: Key): Promise<void> {
    try {
      await ask((sftp, done) => sftp.unlink(at(key), done));
    } catch (error) {
      if (answerOf(error) === noSuchFile) return;
      if (error instanceof ConnectionLost) throw error;
      // A directory of that name is no file: there is nothing to remove.
      const found = await place.lstat(key);
      if (found !== undefined && !found.isDirectory()) throw error;
    }
  }

  async function removeTree(directory: Key): Promise<void> {
    // Always the same name, so that a try whose answers were lost leaves nothing that the next one does not
    // find.
    const aside = listedKey(`${directory}.gone`);
    await removeAll(aside);
    try {
      await rename(directory, aside);
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      if (answerOf(error) === noSuchFile || (await place.lstat(directory)) === undefined) {
        // An earlier try may have got as far as here.
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
    const entries = await place.entries(directory);
    await pMap(entries, async ({ key, type }) => (type === 'directory' ? removeAll(key) : unlink(key)), {
      concurrency: directoriesAtOnce,
    });
    await unlessMissing(async () => ask((sftp, done) => sftp.rmdir(at(directory), done)));
  }
}

/** Where a file stands that `write` is replacing in steps. */
export function replacedName(key: Key): Key {
  return joinKey(joinKey(parentOf(key), '.publisher.tmp'), `replaced-${nameOf(key)}`);
}
