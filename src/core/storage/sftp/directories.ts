import { notADirectory } from '../errors.ts';
import { parentOf, type Key } from '../key.ts';
import { applyDirectoryMode } from './apply-mode.ts';
import { cannotMake, ConnectionLost, isAbsent, mayBeTaken } from './errors.ts';
import { makeRoot } from './root-directory.ts';
import type { SftpRoot } from './root.ts';

/**
 * The directories that keys imply: created when a file is written below them, removed with their last file.
 */
export interface SftpDirectories {
  /** Creates a directory and its parents. Throws `storage_permanent` if a file or a link is in the way. */
  create(directory: Key | ''): Promise<void>;
  /**
   * Creates the parent directory of `key` and runs `work`. If another process removes the directory, or one
   * above it, in between because it is empty, both are repeated.
   */
  withParent<T>(key: Key, work: () => Promise<T>): Promise<T>;
  /**
   * Removes `directory` and its parents as long as they are empty, up to but not including the root. Another
   * process may remove or fill a directory at the same time.
   */
  removeEmpty(directory: Key | ''): Promise<void>;
  /** Forgets that `directory` and those below it exist; they are created again when they are next needed. */
  forgetBelow(directory: Key | ''): void;
}

const mostAttempts = 50;
/** From this attempt on, a failure despite an existing directory is taken for a missing file. */
const attemptsBeforeLooking = 10;

export function sftpDirectories(root: SftpRoot): SftpDirectories {
  const { at, ask } = root;
  /** By absolute path: directories that exist or are being created. */
  const known = new Map<string, Promise<void>>();
  root.onReconnect(() => known.clear());

  return {
    create,
    forgetBelow,

    async withParent(key, work) {
      for (let attempt = 1; ; attempt += 1) {
        try {
          await create(parentOf(key));
          return await work();
        } catch (error) {
          if (!isAbsent(error) || attempt === mostAttempts) throw error;
          // The directory may exist again because other processes create and remove it all the time. If it
          // still exists after several attempts, it is something else that is missing.
          if (attempt >= attemptsBeforeLooking && (await root.lstat(parentOf(key))) !== undefined)
            throw error;
          // Another process may have removed any directory above the key, not only the last one.
          known.clear();
        }
      }
    },

    async removeEmpty(directory) {
      for (let each = directory; each !== ''; each = parentOf(each)) {
        const here = at(each);
        known.delete(here);
        try {
          await ask((sftp, done) => sftp.rmdir(here, done));
        } catch (error) {
          if (error instanceof ConnectionLost) throw error;
          if (!isAbsent(error)) return;
        }
      }
    },
  };

  async function create(directory: Key | ''): Promise<void> {
    const here = at(directory);
    const found = known.get(here);
    if (found !== undefined) return found;
    const creating = directory === '' ? makeRoot(root) : createOne(directory);
    known.set(here, creating);
    creating.catch(() => known.delete(here));
    return creating;
  }

  async function createOne(directory: Key): Promise<void> {
    await create(parentOf(directory));
    for (let attempt = 1; ; attempt += 1)
      try {
        await ask((sftp, done) => sftp.mkdir(at(directory), { mode: root.modes.directory }, done));
        await applyDirectoryMode(root, at(directory));
        return;
      } catch (error) {
        if (error instanceof ConnectionLost) throw error;
        const found = await root.lstat(directory);
        if (found?.isDirectory() === true) return;
        if (found !== undefined) throw notADirectory(root, directory, { isLink: found.isSymbolicLink() });
        // It existed, and another publisher removed the empty directory before it was looked at.
        if (isAbsent(error)) throw error;
        if (!mayBeTaken(error) || attempt === mostAttempts)
          throw cannotMake(root.label, directory, parentOf(directory) || root.path, error);
      }
  }

  function forgetBelow(directory: Key | ''): void {
    const here = at(directory);
    for (const each of [...known.keys()])
      if (each === here || each.startsWith(`${here}/`)) known.delete(each);
  }
}
