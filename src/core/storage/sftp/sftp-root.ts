import path from 'node:path';
import type { FileEntryWithStats, SFTPWrapper, Stats } from 'ssh2';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import { quotedName } from '../../lib/text.ts';
import { joinKey, type Key } from '../key.ts';
import type { FileModes } from '../modes.ts';
import type { Entry, EntryType, ListOptions, Storage } from '../storage.ts';
import { distrusted, isName, ListingLimit, maxEmptyPages, sizeFrom } from '../untrusted.ts';
import type { Send, SftpSession } from './session.ts';
import { isAbsent, requestFailure, statusOf } from './sftp-errors.ts';

const maxConcurrentDirectories = 8;

/** A directory entry, without the parts of a response that are not used and have no size limit. */
export interface ListedEntry {
  filename: string;
  /** The protocol lets a server leave out the size and the time. */
  attrs: Pick<Stats, 'mode'> & Partial<Pick<Stats, 'size' | 'mtime'>>;
}

interface RootOptions {
  label: string;
  /** Relative to the user's home directory, or absolute. */
  directory: string;
  /** The modes of new files and directories. */
  modes: FileModes;
  connect: () => Promise<SftpSession>;
}

/** Connects and opens the root. Throws the errors of `connect`. */
export async function openRoot(options: RootOptions): Promise<SftpRoot> {
  return new SftpRoot(options, await options.connect());
}

/**
 * The directory on the server that is the root of a storage. It has a single connection, which is opened
 * again if it breaks. Methods throw the errors of `SftpSession.ask`.
 */
export class SftpRoot {
  readonly label: string;
  /** The absolute path on the server. */
  readonly path: string;
  readonly modes: FileModes;
  /** Whether renaming replaces the target in a single step. */
  readonly replaces: boolean;
  readonly #connect: () => Promise<SftpSession>;
  readonly #onReconnect: (() => void)[] = [];
  #session: Promise<SftpSession>;
  #isClosed = false;

  constructor({ label, directory, modes, connect }: RootOptions, first: SftpSession) {
    this.label = label;
    // The server may return a relative home directory, which must not start at this process's directory.
    this.path = path.posix.resolve('/', first.home, directory);
    this.modes = modes;
    this.replaces = first.replaces;
    this.#connect = connect;
    this.#session = Promise.resolve(first);
  }

  /** Returns the absolute path of a key on the server. */
  at(key: Key | ''): string {
    return key === '' ? this.path : path.posix.join(this.path, key);
  }

  /** Returns the current session. Reconnects if the last one is broken. */
  async connected(): Promise<SftpSession> {
    if (this.#isClosed) throw new WaybillError('storage_permanent', `${this.label}: was closed`);
    const broken = this.#session;
    const session = await broken;
    if (!session.isClosed()) return session;
    for (const forget of this.#onReconnect) forget();
    // Only the first caller connects. The others use the same connection.
    if (this.#session === broken) {
      const next = this.#connect();
      this.#session = next;
      next.catch(() => (this.#session = Promise.resolve(session)));
    }
    return this.#session;
  }

  /**
   * Calls `forget` before each reconnect and on close. Cached facts about the server may be outdated,
   * and a different server may answer.
   */
  onReconnect(forget: () => void): void {
    this.#onReconnect.push(forget);
  }

  async ask<T>(send: Send<T>): Promise<T> {
    return (await this.connected()).ask(send);
  }

  /** Returns the entry at a key, or undefined if there is none. Symbolic links are not followed. */
  async lstat(key: Key | ''): Promise<Stats | undefined> {
    return undefinedIfMissing(async () => this.ask<Stats>((sftp, done) => sftp.lstat(this.at(key), done)));
  }

  /**
   * Returns the status of the root, or undefined if it does not exist. If the root is a link to a directory,
   * the link is followed.
   */
  async rootStat(): Promise<Stats | undefined> {
    return undefinedIfMissing(async () => this.ask<Stats>((sftp, done) => sftp.stat(this.path, done)));
  }

  /** Implements `Storage.list`. */
  async *walk(
    directory: Key | '',
    { recursive, stamps = false, limit = new ListingLimit() }: ListOptions,
  ): AsyncIterable<Entry> {
    const entriesOf = (each: Key | ''): Promise<Entry[]> =>
      this.entries(each, limit, stamps).catch((error: unknown) => {
        throw requestFailure(this.label, each === '' ? '.' : each, error);
      });
    let level: (Key | '')[] = [directory];
    while (level.length > 0) {
      const next: Key[] = [];
      // A level may have many files, so only the files of a few directories are kept in memory.
      for (let start = 0; start < level.length; start += maxConcurrentDirectories) {
        const some = level.slice(start, start + maxConcurrentDirectories);
        for (const entries of await Promise.all(some.map(entriesOf)))
          for (const entry of entries)
            if (recursive && entry.type === 'directory') next.push(entry.key);
            else yield entry;
      }
      level = next;
    }
  }

  /**
   * Lists the entries directly in a directory. If the directory does not exist, the list is empty. Throws
   * `storage_permanent` if that exceeds `limit`.
   */
  async entries(directory: Key | '', limit: ListingLimit, stamps = false): Promise<Entry[]> {
    limit.enter(this, directory);
    const found = await undefinedIfMissing(async () =>
      this.ask<ListedEntry[]>((sftp, done) => readDirectory(this, sftp, this.at(directory), limit, done)),
    );
    return (found ?? []).map(({ filename, attrs }) => {
      const type = typeOf(attrs);
      const key = joinKey(directory, filename);
      if (type !== 'file') return { key, type, size: 0 };
      // SFTP only has times in whole seconds, and no inode change time.
      const size = sizeFrom(this, key, attrs.size);
      const modifiedAt = stamps ? timeOf(attrs) : null;
      if (modifiedAt === null) return { key, type, size };
      return { key, type, size, stamp: { id: `${size}-${attrs.mtime}`, modifiedAt, isExact: false } };
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const forget of this.#onReconnect) forget();
    await this.#session.then(
      async (session) => session.close(),
      () => undefined,
    );
  }
}

/** Runs `work`. Returns undefined if the server says that the file does not exist. */
export async function undefinedIfMissing<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (isAbsent(error) || hasCode(error, 'storage_not_found')) return undefined;
    throw error;
  }
}

export function typeOf(found: Pick<Stats, 'mode'>): EntryType {
  const kind = found.mode & 0o170000;
  if (kind === 0o100000) return 'file';
  if (kind === 0o040000) return 'directory';
  return kind === 0o120000 ? 'link' : 'other';
}

/** Returns the time of the last change, or null if the server does not report it. */
export function timeOf({ mtime }: { mtime?: number | undefined }): Date | null {
  return mtime === undefined ? null : new Date(mtime * 1000);
}

const endOfFile = 1;

/**
 * Reads the entries of a directory, without `.` and `..`. On its own, ssh2 would collect however many entries
 * the server sends. Fails with `storage_permanent` if they exceed `limit`, or if a name could lead elsewhere.
 */
export function readDirectory(
  storage: Pick<Storage, 'label'>,
  sftp: Pick<SFTPWrapper, 'opendir' | 'readdir' | 'close'>,
  directory: string,
  limit: ListingLimit,
  done: (error?: Error | null, entries?: ListedEntry[]) => void,
): void {
  const found: ListedEntry[] = [];
  let emptyAnswers = 0;

  sftp.opendir(directory, (failure, handle) => {
    if (failure instanceof Error) {
      done(failure);
      return;
    }
    const finish = (error: Error | null): void => {
      sftp.close(handle, () => (error === null ? done(null, found) : done(error)));
    };
    const next = (): void => {
      sftp.readdir(handle, (error, entries) => {
        if (error instanceof Error) {
          finish(statusOf(error) === endOfFile ? null : error);
          return;
        }
        try {
          take(entries);
        } catch (refusal) {
          finish(refusal as Error);
          return;
        }
        next();
      });
    };
    next();
  });

  function take(entries: readonly FileEntryWithStats[]): void {
    // ssh2 leaves out `.` and `..`, so a response may end up being empty.
    emptyAnswers = entries.length === 0 ? emptyAnswers + 1 : 0;
    if (emptyAnswers > maxEmptyPages) throw distrusted(storage, 'it lists nothing without an end');
    for (const { filename, attrs } of entries) {
      if (filename === '.' || filename === '..') continue;
      if (!isName(filename)) throw distrusted(storage, `${quotedName(filename)} is not a name of a file`);
      limit.add(storage, `${directory}/${filename}`);
      const { mode, size, mtime } = attrs;
      found.push({ filename, attrs: { mode, size, mtime } });
    }
  }
}
