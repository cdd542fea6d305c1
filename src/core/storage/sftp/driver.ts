import pMap from 'p-map';
import type { Clock } from '../../lib/clock.ts';
import type { Secrets } from '../../lib/secrets.ts';
import { WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { distrusted, maxDepth } from '../untrusted.ts';
import { alreadyExists, notFound, readOnly as refuseReadOnly } from '../errors.ts';
import { listedKey, parentOf, type Key, scratchBeside } from '../key.ts';
import { privateModes } from '../modes.ts';
import { sftpDirectories } from './directories.ts';
import { ConnectionLost, isAbsent, requestFailure } from './errors.ts';
import { detectFullDisk } from './free-space.ts';
import { furtherSessions } from './further-sessions.ts';
import { sftpDuplicator } from './duplicate.ts';
import { sftpHardLinks } from './hard-links.ts';
import { sftpKeeper } from './keep.ts';
import { linkAbove } from './links.ts';
import { describeSftp, type SftpLocation } from './location.ts';
import { replacedName, sftpNames } from './names.ts';
import { explained, sftpObstacle } from './obstacles.ts';
import { sftpLinker } from './replace-link.ts';
import { requireMakeableRoot } from './root-directory.ts';
import { openRoot, typeOf, type SftpRoot } from './root.ts';
import { openSession } from './session.ts';
import { readFile, writeFile, type Connections } from './transfer.ts';
import type { Body, Entry, Move, Storage, WriteOptions, Written } from '../storage.ts';

export interface SftpStorageOptions {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  readOnly?: boolean;
  mustExist?: boolean;
  /** Leaves no trace on this machine either: a new host key is not added to the known hosts file. */
  dryRun?: boolean;
  /** How long the server may take to answer, in milliseconds; only tests pass their own. */
  answerWithinMs?: number;
}

const requestsAtOnce = 64;
const directoriesAtOnce = 8;

/**
 * Opens a directory of an SFTP server, over one connection with the requests of many files in flight, and
 * further ones for large files on a long line (`further-sessions.ts`). If it breaks, those requests fail
 * with `storage_transient`, and the next call connects again.
 *
 * Opening connects, and throws `storage_denied` if the login or the host key is refused, `storage_transient`
 * if the server cannot be reached, `storage_not_found` if the directory is missing and `mustExist`, and
 * `storage_permanent` if it is not a directory or anything else is configured wrongly. Calls also throw
 * `storage_exists`, `storage_full` and `body_mismatch`, as the contract says.
 *
 * Files are synced if the server supports `fsync@openssh.com`; directory entries cannot be synced over SFTP.
 * Symbolic links below the root are not followed.
 */
export async function sftpStorage(location: SftpLocation, options: SftpStorageOptions): Promise<Storage> {
  const { readOnly = false, mustExist = false, dryRun = false, answerWithinMs } = options;
  const { clock, log, secrets } = options;
  const label = describeSftp(location);
  const { modes = privateModes } = location;
  const session = {
    ...{ location, label, secrets, log, clock, remember: !dryRun },
    ...(answerWithinMs === undefined ? {} : { answerWithinMs }),
  };
  const root = await openRoot(label, location.path, () => openSession(session), modes);
  try {
    if (mustExist) await requireDirectory(root);
    else await requireMakeableRoot(root);
  } catch (error) {
    await root.close();
    throw requestFailure(label, '.', error);
  }
  const { at, replaces } = root;
  const further = furtherSessions({
    ...{ label, log, most: location.maxConnections },
    connect: ({ hostKey }, signal) =>
      openSession({ ...session, remember: false, expectedHostKey: hostKey, signal }),
  });
  const connections = async (): Promise<Connections> => ({
    first: await root.connected(),
    further,
    fileMode: modes.file,
  });
  const directories = sftpDirectories(root);
  const names = sftpNames(root, directories, { readOnly });
  const hardLink = sftpHardLinks(root, directories);
  const keeper = sftpKeeper(root, directories, names, hardLink);
  const duplicate = sftpDuplicator(root, directories, hardLink);
  const linker = sftpLinker(root, directories, names);
  /** Scratch files written here, which need not be looked for before they are renamed. */
  const written = new Set<Key>();

  const storage: Storage = {
    label,
    facts: {
      rename: replaces ? 'atomic' : 'replace_in_steps',
      conditionalWrites: async () => 'create',
      keepsHeaders: false,
      movesDirectories: false,
      replacesLinks: replaces,
      largestKeptBytes: null,
      localFiles: null,
      clockOffsetMs: null,
    },

    stat: (key) =>
      mapErrors(key, async () => {
        await names.recover(key);
        const found = await root.lstat(key);
        if (found === undefined) return undefined;
        const type = typeOf(found);
        const size = type === 'file' ? found.size : 0;
        return { type, size, version: null, modifiedAt: new Date(found.mtime * 1000) };
      }),

    async *list(directory, { recursive }): AsyncIterable<Entry> {
      let level: (Key | '')[] = [directory];
      for (let depth = 0; level.length > 0; depth += 1) {
        if (depth > maxDepth) throw distrusted(storage, `directories are nested deeper than ${maxDepth}`);
        const listings = await pMap(level, async (each) => mapErrors(each, async () => root.entries(each)), {
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
        yield* readFile(await root.connected(), at(key));
      } catch (error) {
        throw isAbsent(error) ? notFound(storage, key, error) : requestFailure(label, key, error);
      }
    },

    async write(key, body, write): Promise<Written> {
      requireWritable(key);
      return changing(key, async () => {
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
      // The server processes requests in order, but goes on after one that fails.
      const missing = await mapErrors(blocked.from, async () => firstMissing(moves));
      const able = missing === -1 ? moves : moves.slice(0, missing);
      await pMap(
        [...new Set(able.map(({ to }) => parentOf(to)))],
        async (directory) => changing(directory, async () => directories.create(directory)),
        { concurrency: requestsAtOnce },
      );
      await pMap(able, async (each) => changing(each.to, async () => move(each)), {
        // A move in steps is several requests, and a retry relies on the completed moves being the first
        // ones.
        concurrency: replaces ? requestsAtOnce : 1,
      });
      if (missing !== -1) throw notFound(storage, moves[missing]?.from ?? '');
    },

    obstacleTo: (change) => mapErrors('', async () => sftpObstacle(root, change)),

    async keep(key, aside) {
      requireWritable(key);
      return changing(key, async () => keeper.keep(key, aside));
    },

    async putBack(kept): Promise<void> {
      requireWritable(kept.key);
      await changing(kept.key, async () => keeper.putBack(kept));
    },

    async duplicate(from, to): Promise<'link' | 'copy' | null> {
      requireWritable(to);
      return changing(to, async () => {
        await unlink(to);
        const by = await duplicate(from, to);
        if (by !== null) written.add(to);
        return by;
      });
    },

    readLink: (key) => mapErrors(key, async () => linker.read(key)),

    async replaceLink(key, target): Promise<void> {
      requireWritable(key);
      await changing(key, async () => linker.replace(key, target));
    },

    sync: async () => undefined,

    async remove(key): Promise<void> {
      requireWritable(key);
      await changing(key, async () => {
        await refuseLinkAbove(key);
        await unlink(key);
        await directories.removeEmpty(parentOf(key));
      });
    },

    async removeTree(directory): Promise<void> {
      requireWritable(directory);
      await changing(directory, async () => {
        await refuseLinkAbove(directory);
        await names.removeTree(directory);
      });
    },

    async close(): Promise<void> {
      written.clear();
      await Promise.all([further.close(), root.close()]);
    },
  };
  return storage;

  async function refuseLinkAbove(key: Key): Promise<void> {
    const error = await linkAbove(root, key);
    if (error !== null) throw error;
  }

  function requireWritable(key: Key): void {
    if (readOnly) throw refuseReadOnly(storage, key);
  }

  async function mapErrors<T>(key: Key | '', work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw requestFailure(label, key === '' ? '.' : key, error);
    }
  }

  /** Like `mapErrors`; says more of what the server refused. */
  async function changing<T>(key: Key | '', work: () => Promise<T>): Promise<T> {
    return mapErrors(key, async () =>
      work().catch(async (error: unknown) => {
        throw await explained(root, key, error);
      }),
    );
  }

  async function store(key: Key, body: Body, write: WriteOptions): Promise<Written> {
    return detectFullDisk(root, key, body.size, async () =>
      directories.withParent(key, async () => writeFile(await connections(), key, at(key), body, write)),
    );
  }

  /** Writes to the staging directory, from which an interrupted write is swept, then moves the file. */
  async function writeWhole(key: Key, body: Body, write: WriteOptions): Promise<Written> {
    const scratch = scratchBeside(key);
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
   * One move. A file replaced in steps waits beside `from` in the attempt's staging, and is swept with it.
   */
  async function move({ from, to, aside }: Move): Promise<void> {
    if (aside !== undefined) await keeper.moveAside(to, aside);
    const replace = async (): Promise<void> =>
      directories.withParent(to, async () => names.replace(from, to, listedKey(`${from}.old`)));
    await replace().catch(async (error: unknown) => {
      // A directory that holds nothing is replaced like a file.
      if (error instanceof ConnectionLost || !(await names.removeIfEmpty(to))) throw error;
      await replace();
    });
    written.delete(from);
  }

  async function unlink(key: Key): Promise<void> {
    written.delete(key);
    await names.unlink(key);
  }

  /** The index of the first move whose file does not exist; -1 if all exist. */
  async function firstMissing(moves: readonly Move[]): Promise<number> {
    const isMissing = await pMap(
      moves,
      async ({ from }) => !written.has(from) && (await root.lstat(from)) === undefined,
      { concurrency: requestsAtOnce },
    );
    return isMissing.indexOf(true);
  }
}

async function requireDirectory(root: SftpRoot): Promise<void> {
  const found = await root.rootStat();
  if (found === undefined)
    throw new WaybillError('storage_not_found', `${root.label}: there is no such directory on the server`, {
      hint: 'check `path`; it begins at the root of what the server shows to this user, or without a slash at its home directory',
    });
  if (!found.isDirectory()) throw new WaybillError('storage_permanent', `${root.label}: is not a directory`);
}
