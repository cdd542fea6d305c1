import path from 'node:path';
import type { Stats } from 'ssh2';
import { WaybillError } from '../../lib/errors.ts';
import { notADirectory } from '../errors.ts';
import { type Key, parentOf } from '../key.ts';
import { cannotMake, ConnectionLost, isAbsent, isDenied, mayBeTaken, requestFailure } from './errors.ts';
import { type SftpRoot, undefinedIfMissing } from './root.ts';
import type { Send, SftpSession } from './session.ts';

const maxAttempts = 50;
/** After this many attempts, a failure is attributed to a missing file if the directory exists. */
const attemptsBeforeCheck = 10;
const maxRootAttempts = 5;
/** Sessions whose server refused to change a mode. No more such requests are sent to them. */
const refusing = new WeakSet<SftpSession>();

/**
 * Manages the directories that keys imply. They are created when a file is written below them and removed
 * with their last file.
 */
export class SftpDirectories {
  readonly #root: SftpRoot;
  /** Directories that exist or are being created, by absolute path. */
  readonly #known = new Map<string, Promise<void>>();

  constructor(root: SftpRoot) {
    this.#root = root;
    root.onReconnect(() => this.#known.clear());
  }

  /** Creates a directory and its parents. Throws `storage_permanent` if a file or a link is in the way. */
  async create(directory: Key | ''): Promise<void> {
    const here = this.#root.at(directory);
    const found = this.#known.get(here);
    if (found !== undefined) return found;
    const creating = directory === '' ? makeRoot(this.#root) : this.#createOne(directory);
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
        if (error instanceof ConnectionLost) throw error;
        const found = await root.lstat(directory);
        if (found?.isDirectory() === true) return;
        if (found !== undefined) throw notADirectory(root, directory, { isLink: found.isSymbolicLink() });
        // The directory existed, but another publisher removed it, empty, before the check.
        if (isAbsent(error)) throw error;
        if (!mayBeTaken(error) || attempt === maxAttempts)
          throw cannotMake(root.label, directory, parentOf(directory) || root.path, error, { isRoot: false });
      }
  }

  /**
   * Creates the parent directory of `key` and runs `work`. Repeats both if another process removes the
   * directory, or one above it, in between because it is empty.
   */
  async withParent<T>(key: Key, work: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await this.create(parentOf(key));
        return await work();
      } catch (error) {
        if (!isAbsent(error) || attempt === maxAttempts) throw error;
        // The directory may exist again, because other processes keep creating and removing it. If it still
        // exists after several attempts, something else is missing.
        if (attempt >= attemptsBeforeCheck && (await this.#root.lstat(parentOf(key))) !== undefined)
          throw error;
        // Another process may have removed any directory above the key, not only the last one.
        this.#known.clear();
      }
    }
  }

  /**
   * Removes `directory` and its parents as long as they are empty, up to but not including the root. Another
   * process may remove or fill a directory at the same time.
   */
  async removeEmpty(directory: Key | ''): Promise<void> {
    for (let each = directory; each !== ''; each = parentOf(each)) {
      const here = this.#root.at(each);
      this.#known.delete(here);
      try {
        await this.#root.ask((sftp, done) => sftp.rmdir(here, done));
      } catch (error) {
        if (error instanceof ConnectionLost) throw error;
        if (!isAbsent(error)) return;
      }
    }
  }

  /** Forgets that `directory` and its subdirectories exist. They are created again when next needed. */
  forgetBelow(directory: Key | ''): void {
    const here = this.#root.at(directory);
    for (const each of [...this.#known.keys()])
      if (each === here || each.startsWith(`${here}/`)) this.#known.delete(each);
  }
}

/** Throws `storage_not_found` or `storage_permanent` unless the root is a directory. */
export async function requireDirectory(root: SftpRoot): Promise<void> {
  const found = await root.rootStat();
  if (found === undefined)
    throw new WaybillError('storage_not_found', `${root.label}: there is no such directory on the server`, {
      hint: 'check `path`; it begins at the root of what the server shows to this user, or without a slash at its home directory',
    });
  if (!found.isDirectory()) throw new WaybillError('storage_permanent', `${root.label}: is not a directory`);
}

/**
 * Checks that the root is a directory, or that nothing prevents its creation. Changes nothing. Throws
 * `storage_permanent`, naming the first component at fault, if a file or a dangling link is in the way.
 * Permission to create directories cannot be determined over SFTP.
 */
export async function requireMakeableRoot(root: SftpRoot): Promise<void> {
  const found = await root.rootStat();
  if (found?.isDirectory() !== true) await firstMissing(root);
}

/** Creates the root and its missing parents, one by one, so that an error names the first one at fault. */
async function makeRoot(root: SftpRoot): Promise<void> {
  if ((await root.rootStat())?.isDirectory() === true) return;
  let attempt = 1;
  for (let missing = await firstMissing(root); missing !== null; missing = await firstMissing(root)) {
    try {
      await makeDirectory(root, missing);
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      // Another process may have created it in the meantime.
      const isStillMissing = (await firstMissing(root)) === missing;
      if (isStillMissing || attempt === maxRootAttempts)
        throw cannotMake(root.label, missing, path.posix.dirname(missing), error, { isRoot: true });
      attempt += 1;
    }
  }
}

/**
 * Returns the topmost component that does not exist, or null if all exist. Throws if a component is at fault.
 */
async function firstMissing(root: SftpRoot): Promise<string | null> {
  const names = root.path.split('/').filter((name) => name !== '');
  for (let count = 1; count <= names.length; count += 1) {
    const here = `/${names.slice(0, count).join('/')}`;
    const found = await lookAt(root, here, (sftp, done) => sftp.stat(here, done));
    if (found === 'hidden' || found?.isDirectory() === true) continue;
    const entry = await lookAt(root, here, (sftp, done) => sftp.lstat(here, done));
    if (entry === undefined) return here;
    // Another process may have created it since the check.
    if (entry !== 'hidden' && entry.isDirectory()) continue;
    const isLink = entry !== 'hidden' && entry.isSymbolicLink();
    throw await inTheWay(root, here, { isLink, isMissing: found === undefined });
  }
  return null;
}

/** Returns `hidden` if access is denied: servers may hide the parents of a user's own directory. */
async function lookAt(
  root: SftpRoot,
  here: string,
  send: Send<Stats>,
): Promise<Stats | 'hidden' | undefined> {
  try {
    return await undefinedIfMissing(async () => root.ask(send));
  } catch (error) {
    if (isDenied(error)) return 'hidden';
    throw error instanceof ConnectionLost ? error : requestFailure(root.label, here, error);
  }
}

/** @param isMissing whether `here` is a link that leads nowhere */
async function inTheWay(
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
    'storage_permanent',
    `${root.label}: "${here}" is a symbolic link${to}, which is not a directory`,
    {
      hint: 'create or mount that directory on the server, or correct the path',
      retryable: isMissing,
    },
  );
}

/** Creates one directory with the mode that the root uses for directories. */
async function makeDirectory(root: SftpRoot, directory: string): Promise<void> {
  await root.ask((sftp, done) => sftp.mkdir(directory, { mode: root.modes.directory }, done));
  const session = await root.connected();
  if (refusing.has(session)) return;
  // Read the mode again, because a new directory may have inherited the setgid bit.
  const made = await session
    .ask<Stats>((sftp, done) => sftp.lstat(directory, done))
    .catch((error: unknown) => {
      if (error instanceof ConnectionLost) throw error;
      return null;
    });
  if (made?.isDirectory() === true) await applyMode(session, directory, made, root.modes.directory);
}

/**
 * Sets exactly this mode on a new file or directory, in case the server's umask removed some bits. A
 * directory keeps its setgid and sticky bits. Does nothing if the server reports no mode, or refuses to
 * change one, because the content matters more. Throws only `ConnectionLost`.
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
    if (error instanceof ConnectionLost) throw error;
    refusing.add(session);
  }
}
