import path from 'node:path';
import pMap from 'p-map';
import type { Stats } from 'ssh2';
import { WaybillError } from '../../lib/errors.ts';
import { ancestorsOf } from '../../lib/paths.ts';
import { notADirectory, otherFileSystem } from '../errors.ts';
import { parentOf, type Key } from '../key.ts';
import type { Change } from '../storage.ts';
import { deniedChange, isDenied, isUnexplained, noSpace } from './errors.ts';
import { fileSystemOf, isExhausted, statvfs, type FileSystem } from './free-space.ts';
import { linkAboveAny } from './links.ts';
import type { SftpRoot } from './root.ts';

const requestsAtOnce = 64;

/**
 * As `Storage.obstacleTo`. Rights cannot be asked for over SFTP. Mounts, read-only file systems and a lack of
 * room are seen if the server offers `statvfs@openssh.com`; room is missing only if there is none at all,
 * because the file system may compress.
 */
export async function sftpObstacle(
  root: SftpRoot,
  { writes, removes, from, bytes }: Change,
): Promise<WaybillError | null> {
  const existing = new Set<Key>();
  for (const level of levelsOf(writes)) {
    const found = await pMap(
      level.filter((directory) => parentOf(directory) === '' || existing.has(parentOf(directory) as Key)),
      async (directory) => ({ directory, entry: await root.lstat(directory) }),
      { concurrency: requestsAtOnce },
    );
    for (const { directory, entry } of found) {
      if (entry === undefined) continue;
      if (!entry.isDirectory()) return notADirectory(root, directory, { isLink: entry.isSymbolicLink() });
      existing.add(directory);
    }
  }
  const linked = await linkAboveAny(root, removes);
  if (linked !== null) return linked;
  let staging = from;
  while (staging !== '' && !existing.has(staging)) staging = parentOf(staging);
  const home = await fileSystemOf(root, staging);
  if (home === null) return null;
  const below = [...existing].filter((directory) => from === '' || directory.startsWith(`${from}/`));
  const systems = await pMap(below, async (directory) => fileSystemOf(root, directory), {
    concurrency: requestsAtOnce,
  });
  if (isReadOnly(home)) return readOnlySystem(root, staging === '' ? root.path : staging);
  for (const [index, system] of systems.entries())
    if (system !== null && String(system.f_sid) !== String(home.f_sid))
      return otherFileSystem(root, below[index] as Key);
  return bytes !== null && bytes > 0 && isExhausted(home) ? noSpace(root.label, staging, null) : null;
}

/**
 * Says more of a change of `key` that the server refused, if it can: servers answer "failure" on a file
 * system that is mounted read-only, and a denial does not say which directory does not allow the change.
 * Otherwise returns `error` as it is. Never throws.
 */
export async function explained(root: SftpRoot, key: Key | '', error: unknown): Promise<unknown> {
  const answer = error instanceof WaybillError ? error.cause : error;
  if (!isUnexplained(answer) && !isDenied(answer)) return error;
  try {
    const { directory, stats } = await directoryAbove(root, root.at(key));
    const system = await statvfs(root, directory);
    if (system !== null && isReadOnly(system)) return readOnlySystem(root, nameOf(root, directory), error);
    // An error that says which directory cannot be made names the one above it, too.
    if (error instanceof WaybillError || !isDenied(answer)) return error;
    return deniedChange(root.label, { key, directory: nameOf(root, directory), stats }, error);
  } catch {
    return error;
  }
}

/** The nearest directory above a place that exists and can be looked at, by absolute path. */
async function directoryAbove(root: SftpRoot, place: string): Promise<{ directory: string; stats: Stats }> {
  for (let directory = path.posix.dirname(place); ; directory = path.posix.dirname(directory)) {
    const stats = await root
      .ask<Stats>((sftp, done) => sftp.stat(directory, done))
      .catch((error: unknown) => {
        if (directory === '/') throw error;
        return undefined;
      });
    if (stats !== undefined) return { directory, stats };
  }
}

/** As a key below the root, or as an absolute path above it. */
function nameOf(root: SftpRoot, directory: string): string {
  return directory.startsWith(`${root.path}/`) ? directory.slice(root.path.length + 1) : directory;
}

/** The directories of these keys, outermost first: all of one depth, then all of the next. */
function levelsOf(keys: readonly Key[]): Key[][] {
  const levels: Set<Key>[] = [];
  for (const key of keys) {
    let depth = 0;
    for (const ancestor of ancestorsOf(key)) (levels[depth++] ??= new Set()).add(ancestor as Key);
  }
  return levels.map((level) => [...level]);
}

/** `SSH_FXE_STATVFS_ST_RDONLY` */
function isReadOnly({ f_flag: flags = 0 }: FileSystem): boolean {
  return (Number(flags) & 1) !== 0;
}

function readOnlySystem(root: SftpRoot, directory: string, cause?: unknown): WaybillError {
  return new WaybillError(
    'storage_denied',
    `${root.label}: "${directory}" is on a file system that is mounted read-only`,
    { hint: 'mount it for writing on the server', cause },
  );
}
