import path from 'node:path';
import type { FileEntryWithStats, Stats } from 'ssh2';
import { hasCode, WaybillError } from '../../errors.ts';
import { joinKey, type Key } from '../key.ts';
import { answerOf, noSuchFile } from './errors.ts';
import type { SftpSession } from './session.ts';
import type { Entry, EntryType } from '../storage.ts';

/**
 * A directory of a server, looked at over one connection that is made anew where it broke. Failures are those
 * of `SftpSession.ask`.
 */
export interface SftpPlace {
  readonly label: string;
  /** Absolute, on the server. */
  readonly root: string;
  readonly replaces: boolean;
  readonly at: (key: Key | '') => string;
  connected(): Promise<SftpSession>;
  readonly ask: <T>(send: Parameters<SftpSession['ask']>[0]) => Promise<T>;
  /** Called before each further connection: what was learned of the server may no longer be so. */
  onReconnect(forget: () => void): void;
  /** What is there, a link not followed. */
  lstat(key: Key | ''): Promise<Stats | undefined>;
  /** What the root is, which may be a link. */
  rootStat(): Promise<Stats | undefined>;
  entries(directory: Key | ''): Promise<Entry[]>;
  close(): Promise<void>;
}

/** Connects, so that what is wrong with host, key or identity is told first. */
export async function openPlace(
  label: string,
  directory: string,
  connect: () => Promise<SftpSession>,
): Promise<SftpPlace> {
  const first = await connect();
  const root = path.posix.resolve(first.home, directory);
  const forgetful: (() => void)[] = [];
  let current: Promise<SftpSession> = Promise.resolve(first);
  let isOver = false;

  const at = (key: Key | ''): string => (key === '' ? root : path.posix.join(root, key));
  const ask = async <T>(send: Parameters<SftpSession['ask']>[0]): Promise<T> =>
    (await connected()).ask(send) as Promise<T>;

  return {
    label,
    root,
    replaces: first.replaces,
    at,
    connected,
    ask,
    onReconnect: (forget) => void forgetful.push(forget),
    lstat: (key) => unlessMissing(async () => ask<Stats>((sftp, done) => sftp.lstat(at(key), done))),
    rootStat: () => unlessMissing(async () => ask<Stats>((sftp, done) => sftp.stat(root, done))),

    async entries(directory) {
      const found = await unlessMissing(async () =>
        ask<FileEntryWithStats[]>((sftp, done) => sftp.readdir(at(directory), done)),
      );
      return (found ?? [])
        .filter(({ filename }) => filename !== '.' && filename !== '..')
        .map(({ filename, attrs }) => {
          const type = typeOf(attrs);
          return { key: joinKey(directory, filename), type, size: type === 'file' ? attrs.size : 0 };
        });
    },

    async close() {
      isOver = true;
      for (const forget of forgetful) forget();
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
    for (const forget of forgetful) forget();
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
}

export async function unlessMissing<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (answerOf(error) === noSuchFile || hasCode(error, 'storage_not_found')) return undefined;
    throw error;
  }
}

export function typeOf(found: Stats): EntryType {
  const kind = found.mode & 0o170000;
  if (kind === 0o100000) return 'file';
  if (kind === 0o040000) return 'directory';
  return kind === 0o120000 ? 'link' : 'other';
}
