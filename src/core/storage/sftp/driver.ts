import { randomUUID } from 'node:crypto';
import pMap from 'p-map';
import type { Secrets } from '../../secrets.ts';
import { WaybillError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import { alreadyExists, notFound, readOnly as refuseReadOnly } from '../errors.ts';
import { joinKey, listedKey, parentOf, type Key } from '../key.ts';
import { sftpDirectories } from './directories.ts';
import { answerOf, noSuchFile, requestFailure } from './errors.ts';
import { describeSftp, type SftpLocation } from './location.ts';
import { replacedName, sftpNames } from './names.ts';
import { openPlace, typeOf, type SftpPlace } from './root.ts';
import { toldIfFull } from './free-space.ts';
import { openSession } from './session.ts';
import { readFile, writeFile } from './transfer.ts';
import type { Body, Entry, Move, Storage, WriteOptions, Written } from '../storage.ts';

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
 * A directory of an SFTP server. One connection, on which requests of many files are under way at once; when
 * it breaks, what was under way fails with `storage_transient`, and the next call connects anew. Opening
 * connects, so that what is wrong with host, key or identity is told first.
 *
 * A directory's own entry cannot be synced over SFTP; files are, where the server knows `fsync@openssh.com`.
 * Links below the root are not followed.
 */
export async function sftpStorage(location: SftpLocation, options: SftpStorageOptions): Promise<Storage> {
  const { readOnly = false, mustExist = false, dryRun = false, answerWithinMs, log, secrets } = options;
  const label = describeSftp(location);
  const place = await openPlace(label, location.path, () =>
    openSession({
      ...{ location, label, secrets, log, remember: !dryRun },
      ...(answerWithinMs === undefined ? {} : { answerWithinMs }),
    }),
  );
  try {
    if (mustExist || !readOnly) await requireDirectory(place, mustExist);
  } catch (error) {
    await place.close();
    throw requestFailure(label, '.', error);
  }
  const { at, replaces } = place;
  const directories = sftpDirectories(place);
  const names = sftpNames(place, directories, { readOnly });
  /** Scratch files of this storage, whose renames need not look first. */
  const written = new Set<Key>();

  const storage: Storage = {
    label,
    facts: {
      rename: replaces ? 'atomic' : 'replace_in_steps',
      conditionalWrites: async () => 'create',
      localRoot: null,
      clockOffsetMs: null,
    },

    stat: (key) =>
      told(key, async () => {
        await names.recover(key);
        const found = await place.lstat(key);
        if (found === undefined) return undefined;
        const type = typeOf(found);
        const size = type === 'file' ? found.size : 0;
        return { type, size, version: null, modifiedAt: new Date(found.mtime * 1000) };
      }),

    async *list(directory, { recursive }): AsyncIterable<Entry> {
      let level: (Key | '')[] = [directory];
      while (level.length > 0) {
        const listings = await pMap(level, async (each) => told(each, async () => place.entries(each)), {
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
        await names.recover(key);
        yield* readFile(await place.connected(), at(key));
      } catch (error) {
        throw answerOf(error) === noSuchFile
          ? notFound(storage, key, error)
          : requestFailure(label, key, error);
      }
    },

    async write(key, body, write): Promise<Written> {
      requireWritable(key);
      return told(key, async () => {
        if (write.mode !== 'scratch') return writeWhole(key, body, write);
        const stored = await store(key, body, write);
        written.add(key);
        return stored;
      });
    },

    async rename(moves: readonly Move[]): Promise<void> {
      const [blocked] = moves;
      if (blocked === undefined) return;
      requireWritable(blocked.to);
      // Requests are done in the order of asking, but one that fails does not keep the next from being done.
      const missing = await told(blocked.from, async () => firstMissing(moves));
      const able = missing === -1 ? moves : moves.slice(0, missing);
      await pMap(
        [...new Set(able.map(({ to }) => parentOf(to)))],
        async (directory) => told(directory, async () => directories.make(directory)),
        { concurrency: requestsAtOnce },
      );
      await pMap(able, async ({ from, to }) => told(to, async () => move(from, to)), {
        // In steps a move is several requests, and a retry counts on those that were done being the first
        // ones.
        concurrency: replaces ? requestsAtOnce : 1,
      });
      if (missing !== -1) throw notFound(storage, moves[missing]?.from ?? '');
    },

    sync: async () => undefined,

    async remove(key): Promise<void> {
      requireWritable(key);
      await told(key, async () => {
        await unlink(key);
        await directories.removeEmpty(parentOf(key));
      });
    },

    async removeTree(directory): Promise<void> {
      requireWritable(directory);
      await told(directory, async () => names.removeTree(directory));
    },

    async close(): Promise<void> {
      written.clear();
      await place.close();
    },
  };
  return storage;

  function requireWritable(key: Key): void {
    if (readOnly) throw refuseReadOnly(storage, key);
  }

  async function told<T>(key: Key | '', work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw requestFailure(label, key === '' ? '.' : key, error);
    }
  }

  async function store(key: Key, body: Body, write: WriteOptions): Promise<Written> {
    return toldIfFull(place, key, body.size, async () =>
      directories.around(key, async () => writeFile(await place.connected(), key, at(key), body, write)),
    );
  }

  /** Writes beside the target under a name that sweeps know, then puts it in place. */
  async function writeWhole(key: Key, body: Body, write: WriteOptions): Promise<Written> {
    const scratch = joinKey(joinKey(parentOf(key), '.publisher.tmp'), `write-${randomUUID()}`);
    try {
      const stored = await store(scratch, body, write);
      if (write.mode !== 'create') await names.replace(scratch, key, replacedName(key));
      else if (!(await names.claim(scratch, key))) throw alreadyExists(storage, key);
      return stored;
    } finally {
      await names
        .unlink(scratch)
        .then(async () => directories.removeEmpty(parentOf(scratch)))
        .catch(() => undefined);
    }
  }

  /**
   * One move of a publication. What it replaces waits among the attempt's own staged files, which are swept
   * with the attempt.
   */
  async function move(from: Key, to: Key): Promise<void> {
    await directories.around(to, async () => names.replace(from, to, listedKey(`${from}.old`)));
    written.delete(from);
  }

  async function unlink(key: Key): Promise<void> {
    written.delete(key);
    await names.unlink(key);
  }

  /** The first move whose file is not there; -1 where all are. */
  async function firstMissing(moves: readonly Move[]): Promise<number> {
    const isMissing = await pMap(
      moves,
      async ({ from }) => !written.has(from) && (await place.lstat(from)) === undefined,
      { concurrency: requestsAtOnce },
    );
    return isMissing.indexOf(true);
  }
}

async function requireDirectory(place: SftpPlace, mustExist: boolean): Promise<void> {
  const found = await place.rootStat();
  if (found === undefined) {
    if (mustExist)
      throw new WaybillError(
        'storage_not_found',
        `${place.label}: there is no such directory on the server`,
        {
          hint: 'check `path`; it begins at the root of what the server shows to this user, or without a slash at its home directory',
        },
      );
  } else if (!found.isDirectory())
    throw new WaybillError('storage_permanent', `${place.label}: is not a directory`);
}
