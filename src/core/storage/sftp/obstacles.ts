import pMap from 'p-map';
import { WaybillError } from '../../errors.ts';
import { ancestorsOf } from '../../paths.ts';
import { notADirectory, otherFileSystem } from '../errors.ts';
import { parentOf, type Key } from '../key.ts';
import type { Change } from '../storage.ts';
import { noSpace } from './errors.ts';
import { fileSystemOf, isExhausted, type FileSystem } from './free-space.ts';
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
  if (isReadOnly(home)) return readOnlySystem(root, staging);
  for (const [index, system] of systems.entries())
    if (system !== null && String(system.f_sid) !== String(home.f_sid))
      return otherFileSystem(root, below[index] as Key);
  return bytes !== null && bytes > 0 && isExhausted(home) ? noSpace(root.label, staging, null) : null;
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

function readOnlySystem(root: SftpRoot, directory: Key | ''): WaybillError {
  const where = directory === '' ? 'the root' : `"${directory}"`;
  return new WaybillError(
    'storage_denied',
    `${root.label}: ${where} is on a file system that is mounted read-only`,
    { hint: 'mount it for writing on the server' },
  );
}
