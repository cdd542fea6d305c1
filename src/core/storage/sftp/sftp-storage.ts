import pMap from 'p-map';
import type { Clock } from '../../lib/clock.ts';
import { WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { Secrets } from '../../lib/secrets.ts';
import type {
  BackupFile,
  Backups,
  Duplicates,
  FixedModes,
  Links,
  ManagedEntries,
  Modes,
  Move,
  Renames,
  ReplaceableLinks,
} from '../capabilities.ts';
import { type Key, parentOf, siblingScratch } from '../key.ts';
import { privateModes } from '../modes.ts';
import type {
  Body,
  Change,
  Entry,
  FileStat,
  ListOptions,
  Storage,
  StorageFacts,
  WriteOptions,
  Written,
} from '../storage.ts';
import { alreadyExists, notFound, readOnly as refuseReadOnly } from '../storage-errors.ts';
import { sizeFrom } from '../untrusted.ts';
import { SftpLinks } from './links.ts';
import { openSession } from './session.ts';
import { SessionPool } from './session-pool.ts';
import { requireCreatableRoot, requireDirectory, SftpDirectories } from './sftp-directories.ts';
import { isAbsent, requestFailure } from './sftp-errors.ts';
import { fixModes } from './sftp-fix-modes.ts';
import { describeSftp, type SftpLocation } from './sftp-location.ts';
import { replacedFileKey, SftpNames } from './sftp-names.ts';
import { detectFullDisk, explainFailure, linkAbove, sftpObstacle } from './sftp-obstacles.ts';
import { openRoot, type SftpRoot, timeOf, typeOf } from './sftp-root.ts';
import { readFile, writeFile } from './transfer.ts';

export interface SftpStorageOptions {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  readOnly?: boolean;
  mustExist?: boolean;
  /** Also leave this machine unchanged: a new host key is not added to the known hosts file. */
  dryRun?: boolean;
  /** The timeout for responses, in milliseconds. Only set in tests. */
  answerWithinMs?: number;
}

const maxConcurrentRequests = 64;

/**
 * Opens a directory on an SFTP server. The requests for many small files share one connection. If the round
 * trip takes long, large files are sent over additional connections (see `session-pool.ts`). If a connection
 * breaks, its requests fail with `storage_transient`, and the next call opens a new one.
 *
 * Opening connects to the server. It throws `storage_denied` if the login or the host key is rejected,
 * `storage_transient` if the server is unreachable, `storage_not_found` if the directory does not exist and
 * `mustExist` is set, and `storage_permanent` if it is not a directory or anything else in the configuration
 * is wrong. Calls may also throw `storage_exists`, `storage_full`, and `body_mismatch`, as defined by the
 * contract.
 *
 * Files are synced if the server supports `fsync@openssh.com`. SFTP has no way to sync directories. Symbolic
 * links below the root are not followed.
 */
export async function sftpStorage(location: SftpLocation, options: SftpStorageOptions): Promise<SftpStorage> {
  const { clock, log, secrets, answerWithinMs, readOnly = false, mustExist = false } = options;
  const label = describeSftp(location);
  const remember = options.dryRun !== true;
  const session = { location, label, secrets, log, clock, remember, answerWithinMs };
  const modes = location.modes ?? privateModes;
  const root = await openRoot({
    label,
    directory: location.path,
    modes,
    connect: () => openSession(session),
  });
  try {
    await (mustExist ? requireDirectory(root) : requireCreatableRoot(root));
  } catch (error) {
    await root.close();
    throw requestFailure(label, '.', error);
  }
  const sessions = new SessionPool({
    label,
    log,
    maxConnections: location.maxConnections,
    connect: ({ hostKey }, signal) =>
      openSession({ ...session, remember: false, expectedHostKey: hostKey, signal }),
  });
  return new SftpStorage(root, sessions, readOnly);
}

class SftpStorage implements Storage, Renames, Links, Backups, Duplicates, Modes {
  readonly label: string;
  readonly facts: StorageFacts = {
    conditionalWrites: async () => 'create',
    keepsHeaders: false,
    clockOffsetMs: null,
  };
  readonly renameKind: Renames['renameKind'];
  readonly movesDirectories = false;
  readonly maxBackupBytes = null;
  readonly replaceLink?: ReplaceableLinks['replaceLink'];
  readonly #root: SftpRoot;
  readonly #sessions: SessionPool;
  readonly #readOnly: boolean;
  readonly #directories: SftpDirectories;
  readonly #names: SftpNames;
  readonly #links: SftpLinks;
  /** The scratch files written by this process. They need not be checked for existence before a rename. */
  readonly #written = new Set<Key>();

  constructor(root: SftpRoot, sessions: SessionPool, readOnly: boolean) {
    this.label = root.label;
    this.#root = root;
    this.#sessions = sessions;
    this.#readOnly = readOnly;
    this.#directories = new SftpDirectories(root);
    this.#names = new SftpNames(root, this.#directories, readOnly);
    this.#links = new SftpLinks(root, this.#directories, this.#names);
    this.renameKind = root.replaces ? 'atomic' : 'replace_in_steps';
    if (root.replaces)
      this.replaceLink = async (key, target) =>
        this.#changing(key, async () => this.#links.replace(key, target));
  }

  async stat(key: Key): Promise<FileStat | undefined> {
    return this.#asking(key, async () => {
      await this.#names.recover(key);
      const found = await this.#root.lstat(key);
      if (found === undefined) return undefined;
      const type = typeOf(found);
      const size = type === 'file' ? sizeFrom(this, key, found.size) : 0;
      return { type, size, version: null, modifiedAt: timeOf(found) };
    });
  }

  list(directory: Key | '', options: ListOptions): AsyncIterable<Entry> {
    return this.#root.walk(directory, options);
  }

  async *read(key: Key): AsyncIterable<Uint8Array> {
    try {
      await this.#names.recover(key);
      yield* readFile(await this.#root.connected(), this.#root.at(key));
    } catch (error) {
      throw isAbsent(error) ? notFound(this, key, error) : requestFailure(this.label, key, error);
    }
  }

  async write(key: Key, body: Body, write: WriteOptions): Promise<Written> {
    return this.#changing(key, async () => {
      if (write.mode !== 'scratch') return this.#writeWhole(key, body, write);
      const stored = await this.#store(key, body, write);
      this.#written.add(key);
      return stored;
    });
  }

  /** Writes a file to staging and then moves it. An interrupted write is cleaned up with staging. */
  async #writeWhole(key: Key, body: Body, write: WriteOptions): Promise<Written> {
    const scratch = siblingScratch(key);
    try {
      const stored = await this.#store(scratch, body, write);
      if (write.mode !== 'create') await this.#names.replace(scratch, key, replacedFileKey(key));
      else if (!(await this.#names.claim(scratch, key))) throw alreadyExists(this, key);
      return stored;
    } finally {
      await this.#names.discard(scratch);
    }
  }

  async #store(key: Key, body: Body, write: WriteOptions): Promise<Written> {
    const root = this.#root;
    return detectFullDisk(root, key, body.size, async () =>
      this.#directories.withParent(key, async () => {
        const first = await root.connected();
        const connections = { first, sessions: this.#sessions, fileMode: root.modes.file };
        return writeFile(connections, { key, path: root.at(key) }, body, write);
      }),
    );
  }

  async rename(moves: readonly Move[]): Promise<void> {
    const [first] = moves;
    if (first === undefined) return;
    this.#requireWritable(first.to);
    // The server handles requests in order, but if one of them fails, it continues with the next.
    const missing = await this.#asking(first.from, async () => this.#firstMissing(moves));
    const possible = missing === -1 ? moves : moves.slice(0, missing);
    await pMap(
      [...new Set(possible.map(({ to }) => parentOf(to)))],
      async (directory) => this.#changing(directory, async () => this.#directories.create(directory)),
      { concurrency: maxConcurrentRequests },
    );
    await pMap(possible, async (move) => this.#changing(move.to, async () => this.#move(move)), {
      // A move in several steps takes several requests. Retrying only works if moves complete in order.
      concurrency: this.#root.replaces ? maxConcurrentRequests : 1,
    });
    if (missing !== -1) throw notFound(this, moves[missing]?.from ?? '');
  }

  /** Returns the index of the first move whose file does not exist, or -1 if they all do. */
  async #firstMissing(moves: readonly Move[]): Promise<number> {
    const isMissing = await pMap(
      moves,
      async ({ from }) => !this.#written.has(from) && (await this.#root.lstat(from)) === undefined,
      { concurrency: maxConcurrentRequests },
    );
    return isMissing.indexOf(true);
  }

  async #move({ from, to, aside }: Move): Promise<void> {
    if (aside !== undefined) await this.#names.moveAside(to, aside);
    await this.#names.move(from, to);
    this.#written.delete(from);
  }

  async obstacleTo(change: Change): Promise<WaybillError | null> {
    return this.#asking('', async () => sftpObstacle(this.#root, change));
  }

  async remove(key: Key): Promise<void> {
    await this.#changing(key, async () => {
      await this.#refuseLinkAbove(key);
      await this.#unlink(key);
      await this.#directories.removeEmpty(parentOf(key));
    });
  }

  async #unlink(key: Key): Promise<void> {
    this.#written.delete(key);
    await this.#names.unlink(key);
  }

  async removeTree(directory: Key): Promise<void> {
    await this.#changing(directory, async () => {
      await this.#refuseLinkAbove(directory);
      await this.#names.removeTree(directory);
    });
  }

  async #refuseLinkAbove(key: Key): Promise<void> {
    const error = await linkAbove(this.#root, key);
    if (error !== null) throw error;
  }

  /**
   * Keeps a file by creating a hard link, if the server supports that. Otherwise, the file is moved aside
   * when it gets replaced. To copy it, we would have to download it and upload it again.
   */
  async backUp(key: Key, aside: Key): Promise<BackupFile | null> {
    return this.#changing(key, async () => {
      if (await this.#links.hardLink(key, aside)) return { key, aside, method: 'link', version: null };
      return (await this.#names.isFile(key)) ? { key, aside, method: 'move', version: null } : null;
    });
  }

  async restore({ key, aside }: BackupFile): Promise<void> {
    await this.#changing(key, async () => this.#names.restore(aside, key));
  }

  async duplicate(from: Key, to: Key): Promise<'link' | 'copy' | null> {
    return this.#changing(to, async () => {
      await this.#unlink(to);
      const by = await this.#links.duplicate(from, to);
      if (by !== null) this.#written.add(to);
      return by;
    });
  }

  async readLink(key: Key): Promise<string | null> {
    return this.#asking(key, async () => this.#links.read(key));
  }

  async fixModes(managed: ManagedEntries, how: { dryRun: boolean }): Promise<FixedModes> {
    return this.#asking('', () => fixModes(this.#root, managed, how));
  }

  async sync(): Promise<void> {
    // SFTP has no way to sync directories.
  }

  async close(): Promise<void> {
    this.#written.clear();
    await Promise.all([this.#sessions.close(), this.#root.close()]);
  }

  #requireWritable(key: Key | ''): void {
    if (this.#readOnly) throw refuseReadOnly(this, key);
  }

  /** Runs `work`, which must only read. Failures become `storage_*` errors that mention `key`. */
  async #asking<T>(key: Key | '', work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw requestFailure(this.label, key === '' ? '.' : key, error);
    }
  }

  /** Like `#asking`, but for changes. Fails if the storage is read-only, and explains other failures. */
  async #changing<T>(key: Key | '', work: () => Promise<T>): Promise<T> {
    this.#requireWritable(key);
    return this.#asking(key, async () =>
      work().catch(async (error: unknown) => {
        throw await explainFailure(this.#root, key, error);
      }),
    );
  }
}
