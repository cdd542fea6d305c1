import path from 'node:path';
import type { Stats } from 'ssh2';
import { WaybillError } from '../../lib/errors.ts';
import { type Key, parentOf } from '../key.ts';
import { notADirectory } from '../storage-errors.ts';
import type { Send, SftpSession } from './session.ts';
import { createError, DisconnectError, isAbsent, isDenied, mayExist, requestFailure } from './sftp-errors.ts';
import { type SftpRoot, undefinedIfMissing } from './sftp-root.ts';

const maxAttempts = 50;
/**
 * After this many attempts, check whether the directory exists. If it does, it is the file that is missing.
 */
const attemptsBeforeCheck = 10;
const maxRootAttempts = 5;
/** Sessions whose servers have refused to change a mode. We do not ask them again. */
const refusing = new WeakSet<SftpSession>();

/**
 * Manages directories, which only exist because of the files in them. They are created when a file is
 * written, and deleted along with their last file.
 */
export class SftpDirectories {
  readonly #root: SftpRoot;
  /** The directories that exist or are being created, by absolute path. */
  readonly #known = new Map<string, Promise<void>>();

  constructor(root: SftpRoot) {
    this.#root = root;
    root.onReconnect(() => this.#known.clear());
  }

  /**
   * Creates a directory and its parents. Throws `storage_permanent` if there is a file or a link in the way.
   */
  async create(directory: Key | ''): Promise<void> {
    const here = this.#root.at(directory);
    const found = this.#known.get(here);
    if (found !== undefined) return found;
    const creating = directory === '' ? createRoot(this.#root) : this.#createOne(directory);
    this.#known.set(here, creating);
    creating.catch(() => this.#known.delete(here));
    return creating;
  }

  async #createOne(directory: Key): Promise<void> {
    const root = this.#root;
    await this.create(parentOf(directory));
    for (let attempt = 1; ; attempt += 1)
      try {
        await makeDirectory(root, root.at(directory));
        return;
      } catch (error) {
        if (error instanceof DisconnectError) throw error;
        const found = await root.lstat(directory);
        if (found?.isDirectory() === true) return;
        if (found !== undefined) throw notADirectory(root, directory, { isLink: found.isSymbolicLink() });
        // The directory was there, but it was empty, and another publisher has deleted it before we could
        // check.
        if (isAbsent(error)) throw error;
        if (!mayExist(error) || attempt === maxAttempts)
          throw createError(root.label, directory, parentOf(directory) || root.path, error, {
            isRoot: false,
          });
      }
  }

  /**
   * Creates the parent directory of `key` and then runs `work`. If the directory, or one above it, is deleted
   * by another process in between because it is empty, does both again.
   */
  async withParent<T>(key: Key, work: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await this.create(parentOf(key));
        return await work();
      } catch (error) {
        if (!isAbsent(error) || attempt === maxAttempts) throw error;
        // The directory may be back, since other processes keep creating and deleting it. If it still exists
        // after several attempts, it is something else that is missing.
        if (attempt >= attemptsBeforeCheck && (await this.#root.lstat(parentOf(key))) !== undefined)
          throw error;
        // Another process may have deleted any of the directories above the key, and not just the last one.
        this.#known.clear();
      }
    }
  }

  /**
   * Deletes `directory` if it is empty, and then its parents as long as they are empty, but never the root.
   * Other processes may delete the same directories, or add files to them, at any time.
   */
  async removeEmpty(directory: Key | ''): Promise<void> {
    for (let each = directory; each !== ''; each = parentOf(each)) {
      const here = this.#root.at(each);
      this.#known.delete(here);
      try {
        await this.#root.ask((sftp, done) => sftp.rmdir(here, done));
      } catch (error) {
        if (error instanceof DisconnectError) throw error;
        if (!isAbsent(error)) return;
      }
    }
  }

  /** Forgets that a directory, and everything below it, exists. It is created again when it is needed. */
  forgetBelow(directory: Key | ''): void {
    const here = this.#root.at(directory);
    for (const each of [...this.#known.keys()])
      if (each === here || each.startsWith(`${here}/`)) this.#known.delete(each);
  }
}

/** Throws `storage_not_found` or `storage_permanent` if the root is not a directory. */
export async function requireDirectory(root: SftpRoot): Promise<void> {
  const found = await root.rootStat();
  if (found === undefined)
    throw new WaybillError('storage_not_found', `${root.label}: there is no such directory on the server`, {
      hint: 'check `path`; it begins at the root of what the server shows to this user, or without a slash at its home directory',
    });
  if (!found.isDirectory()) throw new WaybillError('storage_permanent', `${root.label}: is not a directory`);
}

/**
 * Checks that the root is a directory, or that it could be created, without changing anything. Throws
 * `storage_permanent` if there is a file in the way, or a link that points nowhere. The message says which
 * directory in the path is the problem. SFTP offers no way to find out whether we may create directories.
 */
export async function requireCreatableRoot(root: SftpRoot): Promise<void> {
  const found = await root.rootStat();
  if (found?.isDirectory() !== true) await firstMissing(root);
}

/**
 * Creates the root and the directories above it, one at a time, so that an error can say which one is the
 * problem.
 */
async function createRoot(root: SftpRoot): Promise<void> {
  if ((await root.rootStat())?.isDirectory() === true) return;
  let attempt = 1;
  for (let missing = await firstMissing(root); missing !== null; missing = await firstMissing(root)) {
    try {
      await makeDirectory(root, missing);
    } catch (error) {
      if (error instanceof DisconnectError) throw error;
      // Another process may have created the directory in the meantime.
      const isStillMissing = (await firstMissing(root)) === missing;
      if (isStillMissing || attempt === maxRootAttempts)
        throw createError(root.label, missing, path.posix.dirname(missing), error, { isRoot: true });
      attempt += 1;
    }
  }
}

/**
 * Returns the topmost directory in the path that does not exist, or null if they all do. Throws if there is a
 * problem with one of them.
 */
async function firstMissing(root: SftpRoot): Promise<string | null> {
  const names = root.path.split('/').filter((name) => name !== '');
  for (let count = 1; count <= names.length; count += 1) {
    const here = `/${names.slice(0, count).join('/')}`;
    const found = await inspectComponent(root, here, (sftp, done) => sftp.stat(here, done));
    if (found === 'hidden' || found?.isDirectory() === true) continue;
    const entry = await inspectComponent(root, here, (sftp, done) => sftp.lstat(here, done));
    if (entry === undefined) return here;
    // Another process may have created it just after we checked.
    if (entry !== 'hidden' && entry.isDirectory()) continue;
    const isLink = entry !== 'hidden' && entry.isSymbolicLink();
    throw await blockedError(root, here, { isLink, isMissing: found === undefined });
  }
  return null;
}

/** Returns `hidden` if access is denied, since servers may hide the directories above a user's own. */
async function inspectComponent(
  root: SftpRoot,
  here: string,
  send: Send<Stats>,
): Promise<Stats | 'hidden' | undefined> {
  try {
    return await undefinedIfMissing(async () => root.ask(send));
  } catch (error) {
    if (isDenied(error)) return 'hidden';
    throw error instanceof DisconnectError ? error : requestFailure(root.label, here, error);
  }
}

/** @param isMissing True if `here` is a link whose target does not exist. */
async function blockedError(
  root: SftpRoot,
  here: string,
  { isLink, isMissing }: { isLink: boolean; isMissing: boolean },
): Promise<WaybillError> {
  if (!isLink)
    return new WaybillError('storage_permanent', `${root.label}: "${here}" is not a directory`, {
      hint: 'correct the path of the destination, or move that file away',
    });
  const target = await root.ask<string>((sftp, done) => sftp.readlink(here, done)).catch(() => null);
  const to = target === null ? '' : ` to "${target}"`;
  return new WaybillError(
    isMissing ? 'storage_unavailable' : 'storage_permanent',
    `${root.label}: "${here}" is a symbolic link${to}, which does not lead to a directory`,
    {
      hint: 'create or mount that directory on the server, or correct the path',
    },
  );
}

/** Creates a directory, with the mode that this root uses for directories. */
async function makeDirectory(root: SftpRoot, directory: string): Promise<void> {
  await root.ask((sftp, done) => sftp.mkdir(directory, { mode: root.modes.directory }, done));
  const session = await root.connected();
  if (refusing.has(session)) return;
  // The new directory may have inherited the setgid bit, so look at its mode again.
  const made = await session
    .ask<Stats>((sftp, done) => sftp.lstat(directory, done))
    .catch((error: unknown) => {
      if (error instanceof DisconnectError) throw error;
      return null;
    });
  if (made?.isDirectory() === true) await applyMode(session, directory, made, root.modes.directory);
}

/**
 * Sets exactly this mode on a new file or directory, because the server's umask may have removed some
 * permissions. The setgid and sticky bits of a directory are kept. Ignores a server that does not report a
 * mode or refuses to change it, because the content is more important. Only throws `DisconnectError`.
 */
export async function applyMode(
  session: SftpSession,
  path: string,
  { mode: found }: { mode?: number },
  mode: number,
): Promise<void> {
  if (found === undefined || (found & 0o777) === mode || refusing.has(session)) return;
  try {
    await session.ask((sftp, done) => sftp.setstat(path, { mode: mode | (found & 0o3000) }, done));
  } catch (error) {
    if (error instanceof DisconnectError) throw error;
    refusing.add(session);
  }
}
