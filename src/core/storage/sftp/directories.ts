import type { Stats } from 'ssh2';
import { WaybillError } from '../../errors.ts';
import { parentOf, type Key } from '../key.ts';
import { answerOf, ConnectionLost, generalFailure, noSuchFile } from './errors.ts';
import { unlessMissing, type SftpPlace } from './root.ts';

/**
 * The directories that keys imply: made when something is written below them, removed with their last file.
 */
export interface SftpDirectories {
  make(directory: Key | ''): Promise<void>;
  /** Runs `work` with the key's directory made; again where someone removed it, being empty, in between. */
  around<T>(key: Key, work: () => Promise<T>): Promise<T>;
  /**
   * Up to and not including the root. Someone else may remove or fill a directory at the same moment: both
   * are fine.
   */
  removeEmpty(directory: Key | ''): Promise<void>;
  /** Directories from here down may be gone, and are made anew when they are next needed. */
  forgetBelow(directory: Key | ''): void;
}

const triesToKeep = 50;
const triesWhereThere = 10;

export function sftpDirectories(place: SftpPlace): SftpDirectories {
  const { at, ask, label } = place;
  /** By their whole path, as they were found or are being made. */
  const known = new Map<string, Promise<void>>();
  place.onReconnect(() => known.clear());

  return {
    make,
    forgetBelow,

    async around(key, work) {
      for (let attempt = 1; ; attempt += 1) {
        await make(parentOf(key));
        try {
          return await work();
        } catch (error) {
          if (answerOf(error) !== noSuchFile || attempt === triesToKeep) throw error;
          // It may be there again because others make and remove it at this moment; then it is something else
          // that is missing.
          if (attempt >= triesWhereThere && (await place.lstat(parentOf(key))) !== undefined) throw error;
          forgetBelow(parentOf(key));
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
          if (answerOf(error) !== noSuchFile) return;
        }
      }
    },
  };

  async function make(directory: Key | ''): Promise<void> {
    const here = at(directory);
    const found = known.get(here);
    if (found !== undefined) return found;
    const making = directory === '' ? makeRoot() : makeOne(directory);
    known.set(here, making);
    making.catch(() => known.delete(here));
    return making;
  }

  async function makeOne(directory: Key): Promise<void> {
    await make(parentOf(directory));
    for (let attempt = 1; ; attempt += 1)
      try {
        await ask((sftp, done) => sftp.mkdir(at(directory), { mode: 0o755 }, done));
        return;
      } catch (error) {
        if (error instanceof ConnectionLost) throw error;
        const found = await place.lstat(directory);
        if (found?.isDirectory() === true) return;
        if (found !== undefined) throw notADirectory(directory, found.isSymbolicLink());
        // It was there, and another publisher removed it, being empty, before it was looked at.
        if (answerOf(error) !== generalFailure || attempt === triesToKeep) throw error;
      }
  }

  /** With the directories that lead there; the root itself may be a link. */
  async function makeRoot(): Promise<void> {
    if ((await place.rootStat())?.isDirectory() === true) return;
    const parts = place.root.split('/').filter((part) => part !== '');
    for (let count = 1; count <= parts.length; count += 1) {
      const here = `/${parts.slice(0, count).join('/')}`;
      const isThere = (): Promise<Stats | undefined> =>
        unlessMissing(async () => ask<Stats>((sftp, done) => sftp.stat(here, done)));
      if ((await isThere()) !== undefined) continue;
      await ask((sftp, done) => sftp.mkdir(here, { mode: 0o755 }, done)).catch(async (error: unknown) => {
        if ((await isThere()) === undefined) throw error;
      });
    }
  }

  function notADirectory(directory: Key, isLink: boolean): WaybillError {
    return new WaybillError('storage_permanent', `${label}: "${directory}" is not a directory`, {
      hint: isLink
        ? 'it is a symbolic link, which waybill does not follow below a root; replace it by a directory, or configure its target as a path'
        : 'move what is there away, or publish to another path',
    });
  }

  function forgetBelow(directory: Key | ''): void {
    const here = at(directory);
    for (const each of [...known.keys()])
      if (each === here || each.startsWith(`${here}/`)) known.delete(each);
  }
}
