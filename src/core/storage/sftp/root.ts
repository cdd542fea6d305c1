import path from 'node:path';
import type { FileEntryWithStats, Stats } from 'ssh2';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import { joinKey, type Key } from '../key.ts';
import { publishedModes, type Modes } from '../modes.ts';
import { isAbsent } from './errors.ts';
import { readDirectory } from './read-directory.ts';
import type { SftpSession } from './session.ts';
import type { Entry, EntryType } from '../storage.ts';

/**
 * The directory of the server that a storage is rooted at, over one connection that is reopened after it
 * broke. Methods reject as `SftpSession.ask` does.
 */
export interface SftpRoot {
  readonly label: string;
  /** Absolute, on the server. */
  readonly path: string;
  /** Modes of new files and directories. */
  readonly modes: Modes;
  /** Whether a rename replaces its target in one step. */
  readonly replaces: boolean;
  /** The absolute path of a key on the server. */
  readonly at: (key: Key | '') => string;
  /** The current session; connects again if the last one broke. */
  connected(): Promise<SftpSession>;
  readonly ask: <T>(send: Parameters<SftpSession['ask']>[0]) => Promise<T>;
  /**
   * `forget` is called before each further connection, and on close: knowledge about the server may be stale.
   */
  onReconnect(forget: () => void): void;
  /** The entry at a key, or undefined if there is none. Symbolic links are not followed. */
  lstat(key: Key | ''): Promise<Stats | undefined>;
  /** The root itself, which may be a link to a directory; undefined if it does not exist. */
  rootStat(): Promise<Stats | undefined>;
  /** One level of a directory; empty if it does not exist. */
  entries(directory: Key | ''): Promise<Entry[]>;
  close(): Promise<void>;
}

/** Connects and resolves `directory` against the home directory of the user. Rejects as `connect` does. */
export async function openRoot(
  label: string,
  directory: string,
  connect: () => Promise<SftpSession>,
  modes = publishedModes,
): Promise<SftpRoot> {
  const first = await connect();
  const rootPath = path.posix.resolve(first.home, directory);
  const listeners: (() => void)[] = [];
  let current: Promise<SftpSession> = Promise.resolve(first);
  let isOver = false;

  const at = (key: Key | ''): string => (key === '' ? rootPath : path.posix.join(rootPath, key));
  const ask = async <T>(send: Parameters<SftpSession['ask']>[0]): Promise<T> =>
    (await connected()).ask(send) as Promise<T>;

  return {
    label,
    path: rootPath,
    modes,
    replaces: first.replaces,
    at,
    connected,
    ask,
    onReconnect: (forget) => void listeners.push(forget),
    lstat: (key) => unlessMissing(async () => ask<Stats>((sftp, done) => sftp.lstat(at(key), done))),
    rootStat: () => unlessMissing(async () => ask<Stats>((sftp, done) => sftp.stat(rootPath, done))),

    async entries(directory) {
      const found = await unlessMissing(async () =>
        ask<FileEntryWithStats[]>((sftp, done) => readDirectory({ label }, sftp, at(directory), done)),
      );
      return (found ?? []).map(({ filename, attrs }) => {
        const type = typeOf(attrs);
        const key = joinKey(directory, filename);
        if (type !== 'file') return { key, type, size: 0 };
        // SFTP has whole seconds, and no time of the inode.
        const stamp = {
          ...{ id: `${attrs.size}-${attrs.mtime}`, modifiedAt: new Date(attrs.mtime * 1000) },
          isExact: false,
        };
        return { key, type, size: attrs.size, stamp };
      });
    },

    async close() {
      isOver = true;
      for (const forget of listeners) forget();
      await current.then(
        async (session) => session.close(),
        () => undefined,
      );
    },
  };

  async function connected(): Promise<SftpSession> {
    if (isOver) throw new WaybillError('storage_permanent', `${label}: was closed`);
    const session = await current;
    if (!session.isClosed()) return session;
    for (const forget of listeners) forget();
    // The first caller connects; the others wait for the same connection.
    const broken = current;
    await Promise.resolve();
    if (current === broken) {
      const next = connect();
      current = next;
      next.catch(() => (current = Promise.resolve(session)));
    }
    return current;
  }
}

/** Runs `work`; undefined if the server answers that the file does not exist. */
export async function unlessMissing<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (isAbsent(error) || hasCode(error, 'storage_not_found')) return undefined;
    throw error;
  }
}

export function typeOf(found: Stats): EntryType {
  const kind = found.mode & 0o170000;
  if (kind === 0o100000) return 'file';
  if (kind === 0o040000) return 'directory';
  return kind === 0o120000 ? 'link' : 'other';
}
