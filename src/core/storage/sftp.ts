import { randomUUID } from 'node:crypto';
import path from 'node:path';
import pMap from 'p-map';
import type { FileEntryWithStats, Stats } from 'ssh2';
import type { SftpLocation } from '../config/config.ts';
import type { Secrets } from '../config/secrets.ts';
import { hasCode, WaybillError } from '../errors.ts';
import type { Log } from '../log.ts';
import { alreadyExists, notFound, readOnly as refuseReadOnly } from './errors.ts';
import { joinKey, listedKey, nameOf, parentOf, type Key } from './key.ts';
import { describeLocation } from './location.ts';
import {
  answerOf,
  ConnectionLost,
  generalFailure,
  noSpace,
  noSuchFile,
  requestFailure,
} from './sftp-errors.ts';
import { openSession, type SftpSession } from './sftp-session.ts';
import { readFile, writeFile } from './sftp-transfer.ts';
import type { Body, Entry, EntryType, FileStat, Move, Storage, WriteOptions, Written } from './storage.ts';

export interface SftpStorageOptions {
  log: Log;
  secrets: Secrets;
  readOnly?: boolean;
  mustExist?: boolean;
  /** Leaves no trace on this machine either: a new host key is written nowhere. */
  dryRun?: boolean;
  /** Only tests pass their own. */
  answerWithinMs?: number;
}

const requestsAtOnce = 64;
const directoriesAtOnce = 8;

/**
 * A directory of an SFTP server. One connection, on which requests of many files are under way at once; when it breaks, what was under way fails
 * with `storage_transient`, and the next call connects anew. Opening connects, so that what is wrong with host, key or identity is told first.
 *
 * A directory's own entry cannot be synced over SFTP; files are, where the server knows `fsync@openssh.com`. Links below the root are not followed.
 */
export async function sftpStorage(location: SftpLocation, options: SftpStorageOptions): Promise<Storage> {
  const label = describeLocation(location);
  const connect = (): Promise<SftpSession> =>
    openSession({
      location,
      label,
      secrets: options.secrets,
      log: options.log,
      remember: options.dryRun !== true,
      ...(options.answerWithinMs === undefined ? {} : { answerWithinMs: options.answerWithinMs }),
    });
  const first = await connect();
  const root = path.posix.resolve(first.home, location.path);
  const at = (key: Key | ''): string => (key === '' ? root : path.posix.join(root, key));
  const { replaces } = first;
  let current: Promise<SftpSession> = Promise.resolve(first);
  let isOver = false;
  const knownDirectories = new Map<string, Promise<void>>();
  /** Scratch files of this storage, whose renames need not look first. */
  const written = new Set<string>();

  const storage: Storage = {
    label,
    facts: {
      rename: replaces ? 'atomic' : 'replace_in_steps',
      conditionalWrites: async () => 'create',
      localRoot: null,
      clockOffsetMs: null,
    },

    stat: (key) => told(key, async () => statOf(key)),

    async *list(directory, { recursive }): AsyncIterable<Entry> {
      let level: (Key | '')[] = [directory];
      while (level.length > 0) {
        const listings = await pMap(level, async (each) => told(each, async () => entriesOf(each)), {
          concurrency: directoriesAtOnce,
        });
        level = [];
        for (const entry of listings.flat()) {
          if (recursive && entry.type === 'directory') level.push(entry.key);
          else yield entry;
        }
      }
    },

    async *read(key): AsyncIterable<Uint8Array> {
      try {
        const session = await connected();
        if (!replaces) await recover(session, key);
        yield* readFile(session, at(key));
      } catch (error) {
        throw answerOf(error) === noSuchFile ? notFound(storage, key, error) : failure(key, error);
      }
    },

    async write(key, body, write): Promise<Written> {
      if (options.readOnly === true) throw refuseReadOnly(storage, key);
      return told(key, async () => {
        if (write.mode !== 'scratch') return writeWhole(key, body, write);
        const stored = await store(key, body, write);
        written.add(at(key));
        return stored;
      });
    },

    async rename(moves: readonly Move[]): Promise<void> {
      const [blocked] = moves;
      if (blocked === undefined) return;
      if (options.readOnly === true) throw refuseReadOnly(storage, blocked.to);
      // Requests are done in the order of asking, but one that fails does not keep the next from being done.
      const missing = await told(blocked.from, async () => firstMissing(moves));
      const able = missing === -1 ? moves : moves.slice(0, missing);
      await pMap(
        [...new Set(able.map(({ to }) => parentOf(to)))],
        async (directory) => told(directory, async () => makeDirectory(directory)),
        {
          concurrency: requestsAtOnce,
        },
      );
      await pMap(able, async ({ from, to }) => told(to, async () => move(from, to)), {
        // In steps a move is several requests, and a retry counts on those that were done being the first ones.
        concurrency: replaces ? requestsAtOnce : 1,
      });
      if (missing !== -1) throw notFound(storage, moves[missing]?.from ?? '');
    },

    async remove(key): Promise<void> {
      if (options.readOnly === true) throw refuseReadOnly(storage, key);
      await told(key, async () => unlink(key));
      await told(key, async () => removeEmptyDirectories(parentOf(key)));
    },

    async removeTree(directory): Promise<void> {
      if (options.readOnly === true) throw refuseReadOnly(storage, directory);
      await told(directory, async () => {
        // Always the same name, so that a try whose answers were lost leaves nothing that the next one does not find.
        const aside = listedKey(`${directory}.gone`);
        await removeAll(aside);
        try {
          await ask((sftp, done) => sftp.rename(at(directory), at(aside), done));
        } catch (error) {
          if (error instanceof ConnectionLost) throw error;
          if (answerOf(error) === noSuchFile || (await lstatOf(directory)) === undefined) return;
          throw error;
        }
        forgetBelow(at(directory));
        await removeAll(aside);
        await removeEmptyDirectories(parentOf(directory));
      });
    },

    async close(): Promise<void> {
      isOver = true;
      knownDirectories.clear();
      written.clear();
      await current.then(
        async (session) => session.close(),
        () => undefined,
      );
    },
  };
  try {
    if (options.mustExist === true || options.readOnly !== true) await requireDirectory();
  } catch (error) {
    await first.close();
    throw error;
  }
  return storage;

  /** The connection, made anew where the last one broke. */
  async function connected(): Promise<SftpSession> {
    if (isOver) throw new WaybillError('storage_permanent', `${label}: was closed`);
    const session = await current;
    if (!session.isClosed()) return session;
    knownDirectories.clear();
    // Who comes first connects; the others wait for the same.
    const making = current;
    await Promise.resolve();
    if (current === making) {
      const next = connect();
      current = next;
      next.catch(() => (current = Promise.resolve(session)));
    }
    return current;
  }

  async function ask<T>(send: Parameters<SftpSession['ask']>[0]): Promise<T> {
    return (await connected()).ask(send) as Promise<T>;
  }

  function failure(key: string, error: unknown): WaybillError {
    return requestFailure(label, key === '' ? '.' : key, error);
  }

  async function told<T>(key: Key | '', work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw failure(key, error);
    }
  }

  async function requireDirectory(): Promise<void> {
    const found = await told('', async () => rootStat());
    if (found === undefined) {
      if (options.mustExist === true)
        throw new WaybillError('storage_not_found', `${label}: there is no such directory on the server`, {
          hint: 'check `path`; it begins at the root of what the server shows to this user, or without a slash at its home directory',
        });
    } else if (!found.isDirectory())
      throw new WaybillError('storage_permanent', `${label}: is not a directory`);
  }

  async function rootStat(): Promise<Stats | undefined> {
    return unlessMissing(async () => ask<Stats>((sftp, done) => sftp.stat(root, done)));
  }

  async function lstatOf(key: Key | ''): Promise<Stats | undefined> {
    return unlessMissing(async () => ask<Stats>((sftp, done) => sftp.lstat(at(key), done)));
  }

  async function statOf(key: Key): Promise<FileStat | undefined> {
    if (!replaces) await recover(await connected(), key);
    const found = await lstatOf(key);
    if (found === undefined) return undefined;
    const type = typeOf(found);
    const size = type === 'file' ? found.size : 0;
    return { type, size, version: null, modifiedAt: new Date(found.mtime * 1000) };
  }

  async function entriesOf(directory: Key | ''): Promise<Entry[]> {
    const found = await unlessMissing(async () =>
      ask<FileEntryWithStats[]>((sftp, done) => sftp.readdir(at(directory), done)),
    );
    return (found ?? [])
      .filter(({ filename }) => filename !== '.' && filename !== '..')
      .map(({ filename, attrs }) => {
        const type = typeOf(attrs);
        return { key: joinKey(directory, filename), type, size: type === 'file' ? attrs.size : 0 };
      });
  }

  async function store(key: Key, body: Body, write: WriteOptions): Promise<Written> {
    try {
      return await inDirectoryOf(key, async () => writeFile(await connected(), key, at(key), body, write));
    } catch (error) {
      if (answerOf(error) === generalFailure && (await isFull())) throw noSpace(label, key, error);
      throw error;
    }
  }

  /** Writes beside the target under a name that sweeps know, then puts it in place. */
  async function writeWhole(key: Key, body: Body, write: WriteOptions): Promise<Written> {
    const scratch = joinKey(joinKey(parentOf(key), '.publisher.tmp'), `write-${randomUUID()}`);
    try {
      const stored = await store(scratch, body, write);
      if (write.mode === 'create') await moveOnce(key, scratch);
      else await replace(scratch, key, replacedName(key));
      return stored;
    } finally {
      await unlink(scratch)
        .then(async () => removeEmptyDirectories(parentOf(scratch)))
        .catch(() => undefined);
    }
  }

  /** A rename of version 3 refuses a name that is taken (OpenSSH makes a link, which is so in one step): of any number of contenders one wins. */
  async function moveOnce(key: Key, scratch: Key): Promise<void> {
    if (!replaces) await recover(await connected(), key);
    try {
      await ask((sftp, done) => sftp.rename(at(scratch), at(key), done));
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      if ((await lstatOf(key)) !== undefined && (await lstatOf(scratch)) !== undefined)
        throw alreadyExists(storage, key, error);
      throw error;
    }
  }

  /** One move of a publication. What it replaces waits among the attempt's own staged files, which are swept with the attempt. */
  async function move(from: Key, to: Key): Promise<void> {
    await inDirectoryOf(to, async () => replace(from, to, listedKey(`${from}.old`)));
    written.delete(at(from));
  }

  async function replace(from: Key, to: Key, aside: Key): Promise<void> {
    if (replaces) {
      await ask((sftp, done) => sftp.ext_openssh_rename(at(from), at(to), done));
      return;
    }
    const found = await lstatOf(to);
    if (found?.isDirectory() === true)
      throw new WaybillError('storage_permanent', `${label}: "${to}" is a directory`);
    if (found !== undefined) {
      await unlink(aside);
      await ask((sftp, done) => sftp.rename(at(to), at(aside), done));
    }
    await ask((sftp, done) => sftp.rename(at(from), at(to), done));
    if (found !== undefined) await unlink(aside);
  }

  /** Where a file stood that `writeWhole` was replacing in steps when it was interrupted. */
  function replacedName(key: Key): Key {
    return joinKey(joinKey(parentOf(key), '.publisher.tmp'), `replaced-${nameOf(key)}`);
  }

  /** A file that is missing because its replacement was interrupted between two steps is put back, or shows itself, as it was. */
  async function recover(session: SftpSession, key: Key): Promise<void> {
    if (!nameOf(key).startsWith('.publisher') || parentOf(key).includes('.publisher')) return;
    const isThere = (name: Key): Promise<Stats | undefined> =>
      unlessMissing(async () => session.ask<Stats>((sftp, done) => sftp.lstat(at(name), done)));
    if ((await isThere(key)) !== undefined || (await isThere(replacedName(key))) === undefined) return;
    if (options.readOnly === true)
      throw new WaybillError('storage_transient', `${label}: "${key}" is being replaced`);
    await session
      .ask((sftp, done) => sftp.rename(at(replacedName(key)), at(key), done))
      .catch(async (error: unknown) => {
        // Its owner lives and went on.
        if ((await isThere(key)) === undefined) throw error;
      });
  }

  /** The first move whose file is not there; -1 where all are. */
  async function firstMissing(moves: readonly Move[]): Promise<number> {
    const session = await connected();
    const isMissing = await pMap(
      moves,
      async ({ from }) =>
        !written.has(at(from)) &&
        (await unlessMissing(async () => session.ask((sftp, done) => sftp.lstat(at(from), done)))) ===
          undefined,
      { concurrency: requestsAtOnce },
    );
    return isMissing.indexOf(true);
  }

  async function unlink(key: Key): Promise<void> {
    written.delete(at(key));
    try {
      await ask((sftp, done) => sftp.unlink(at(key), done));
    } catch (error) {
      if (answerOf(error) === noSuchFile) return;
      if (error instanceof ConnectionLost) throw error;
      // A directory of that name is no file: there is nothing to remove.
      const found = await lstatOf(key);
      if (found !== undefined && !found.isDirectory()) throw error;
    }
  }

  async function removeAll(directory: Key): Promise<void> {
    const entries = await entriesOf(directory);
    await pMap(entries, async ({ key, type }) => (type === 'directory' ? removeAll(key) : unlink(key)), {
      concurrency: directoriesAtOnce,
    });
    await unlessMissing(async () => ask((sftp, done) => sftp.rmdir(at(directory), done)));
  }

  /** Up to and not including the root. Someone else may remove or fill a directory at the same moment: both are fine. */
  async function removeEmptyDirectories(directory: Key | ''): Promise<void> {
    for (let at_ = directory; at_ !== ''; at_ = parentOf(at_)) {
      const here = at(at_);
      knownDirectories.delete(here);
      try {
        await ask((sftp, done) => sftp.rmdir(here, done));
      } catch (error) {
        if (error instanceof ConnectionLost) throw error;
        if (answerOf(error) !== noSuchFile) return;
      }
    }
  }

  /** Runs `work` with the key's directory made; again where someone removed it, being empty, in between. */
  async function inDirectoryOf<T>(key: Key, work: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      await makeDirectory(parentOf(key));
      try {
        return await work();
      } catch (error) {
        if (answerOf(error) !== noSuchFile || attempt === 5) throw error;
        if ((await lstatOf(parentOf(key))) !== undefined) throw error;
        forgetBelow(at(parentOf(key)));
      }
    }
  }

  async function makeDirectory(directory: Key | ''): Promise<void> {
    const place = at(directory);
    const known = knownDirectories.get(place);
    if (known !== undefined) return known;
    const making = directory === '' ? makeRoot() : makeOne(directory);
    knownDirectories.set(place, making);
    making.catch(() => knownDirectories.delete(place));
    return making;
  }

  async function makeOne(directory: Key): Promise<void> {
    await makeDirectory(parentOf(directory));
    try {
      await ask((sftp, done) => sftp.mkdir(at(directory), { mode: 0o755 }, done));
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      const found = await lstatOf(directory);
      if (found === undefined) throw error;
      if (!found.isDirectory()) throw notADirectory(directory, found.isSymbolicLink());
    }
  }

  /** With the directories that lead there; the root itself may be a link. */
  async function makeRoot(): Promise<void> {
    if ((await rootStat())?.isDirectory() === true) return;
    const parts = root.split('/').filter((part) => part !== '');
    for (let count = 1; count <= parts.length; count += 1) {
      const place = `/${parts.slice(0, count).join('/')}`;
      const isThere = await unlessMissing(async () => ask<Stats>((sftp, done) => sftp.stat(place, done)));
      if (isThere === undefined)
        await ask((sftp, done) => sftp.mkdir(place, { mode: 0o755 }, done)).catch(async (error: unknown) => {
          if ((await unlessMissing(async () => ask((sftp, done) => sftp.stat(place, done)))) === undefined)
            throw error;
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

  function forgetBelow(place: string): void {
    for (const known of [...knownDirectories.keys()])
      if (known === place || known.startsWith(`${place}/`)) knownDirectories.delete(known);
  }

  /** Where the server can tell. Its answer to a write on a full disk says only that it failed. */
  async function isFull(): Promise<boolean> {
    const found = await ask<{ f_bavail?: number }>((sftp, done) =>
      sftp.ext_openssh_statvfs(root, done as never),
    ).catch(() => null);
    return found?.f_bavail === 0;
  }
}

async function unlessMissing<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (answerOf(error) === noSuchFile || hasCode(error, 'storage_not_found')) return undefined;
    throw error;
  }
}

function typeOf(found: Stats): EntryType {
  const kind = found.mode & 0o170000;
  if (kind === 0o100000) return 'file';
  if (kind === 0o040000) return 'directory';
  return kind === 0o120000 ? 'link' : 'other';
}
