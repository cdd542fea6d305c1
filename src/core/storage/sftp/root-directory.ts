import { applyDirectoryMode } from './apply-mode.ts';
import path from 'node:path';
import type { Stats } from 'ssh2';
import { WaybillError } from '../../lib/errors.ts';
import { cannotMake, ConnectionLost, isDenied, requestFailure } from './errors.ts';
import { unlessMissing, type SftpRoot } from './root.ts';

/*
 * The root of an SFTP storage, which may lie below directories that do not exist yet. Its components are
 * looked at and made one by one, so that an error names the first one at fault.
 */

const mostAttempts = 5;

/**
 * Checks that the root is a directory, or that nothing is in the way of making it. Only asks. Throws
 * `storage_permanent` if a file or a dangling link is in the way, with the first component at fault. The
 * rights to make directories cannot be seen over SFTP.
 */
export async function requireMakeableRoot(root: SftpRoot): Promise<void> {
  const found = await root.rootStat();
  if (found?.isDirectory() !== true) await firstMissing(root);
}

/**
 * Makes the root and the directories above it. Throws as `requireMakeableRoot` does, and if the server
 * refuses to make a directory.
 */
export async function makeRoot(root: SftpRoot): Promise<void> {
  if ((await root.rootStat())?.isDirectory() === true) return;
  let attempt = 1;
  for (let missing = await firstMissing(root); missing !== null; missing = await firstMissing(root)) {
    const here = missing;
    try {
      await root.ask((sftp, done) => sftp.mkdir(here, { mode: root.modes.directory }, done));
      await applyDirectoryMode(root, here);
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      // Another process may have made it meanwhile.
      const isStillMissing = (await firstMissing(root)) === here;
      if (isStillMissing || attempt === mostAttempts)
        throw cannotMake(root.label, here, path.posix.dirname(here), error);
      attempt += 1;
    }
  }
}

/** The uppermost component that does not exist; null if all exist. Throws if one is at fault. */
async function firstMissing(root: SftpRoot): Promise<string | null> {
  const names = root.path.split('/').filter((name) => name !== '');
  for (let count = 1; count <= names.length; count += 1) {
    const here = `/${names.slice(0, count).join('/')}`;
    const found = await lookAt(root, here, (sftp, done) => sftp.stat(here, done));
    if (found === 'hidden' || found?.isDirectory() === true) continue;
    const entry = await lookAt(root, here, (sftp, done) => sftp.lstat(here, done));
    if (entry === undefined) return here;
    // Another process may have made it since it was looked for.
    if (entry !== 'hidden' && entry.isDirectory()) continue;
    throw await inTheWay(root, here, entry !== 'hidden' && entry.isSymbolicLink());
  }
  return null;
}

/** Servers may hide what lies above the directories of a user. */
async function lookAt(
  root: SftpRoot,
  here: string,
  send: Parameters<typeof root.ask>[0],
): Promise<Stats | 'hidden' | undefined> {
  try {
    return await unlessMissing(async () => root.ask<Stats>(send));
  } catch (error) {
    if (isDenied(error)) return 'hidden';
    throw error instanceof ConnectionLost ? error : requestFailure(root.label, here, error);
  }
}

async function inTheWay({ label, ask }: SftpRoot, here: string, isLink: boolean): Promise<WaybillError> {
  if (!isLink)
    return new WaybillError('storage_permanent', `${label}: "${here}" is not a directory`, {
      hint: 'move it away, or correct the path of the destination',
    });
  const target = await ask<string>((sftp, done) => sftp.readlink(here, done)).catch(() => null);
  const to = target === null ? '' : ` to "${target}"`;
  return new WaybillError(
    'storage_permanent',
    `${label}: "${here}" is a symbolic link${to}, which is not a directory`,
    { hint: 'make that directory on the server (or mount what belongs there), or correct the path' },
  );
}
