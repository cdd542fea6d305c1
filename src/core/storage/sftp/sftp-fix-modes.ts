import { inParallel } from '../../lib/parallel.ts';
import type { FixedModes, ManagedEntries } from '../capabilities.ts';
import { joinKey, type Key, parentOf } from '../key.ts';
import { ListingLimit } from '../untrusted.ts';
import { DisconnectError } from './sftp-errors.ts';
import { type ListedEntry, readDirectory, type SftpRoot, typeOf, undefinedIfMissing } from './sftp-root.ts';

const maxConcurrentDirectories = 16;

/**
 * Implements `Modes.fixModes`. It gets the current modes from directory listings, and changes them with a
 * request that does not follow links (lsetstat@openssh.com). If the server does not support that, all changes
 * count as refused. Throws `DisconnectError`, or the error for a directory that cannot be listed.
 */
export async function fixModes(
  root: SftpRoot,
  { files, directories }: ManagedEntries,
  { dryRun }: { dryRun: boolean },
): Promise<FixedModes> {
  const result: FixedModes = { fixed: 0, refused: 0 };
  const inside = new Set<Key>(directories);
  const limit = new ListingLimit();
  const listed = new Set<Key | ''>([...files.keys(), ...directories].map(parentOf));
  await inParallel(listed, maxConcurrentDirectories, async (directory) => {
    const found = await undefinedIfMissing(() =>
      root.ask<ListedEntry[]>((sftp, done) => readDirectory(root, sftp, root.at(directory), limit, done)),
    );
    for (const { filename, attrs } of found ?? []) {
      const key = joinKey(directory, filename);
      const type = typeOf(attrs);
      const isManagedFile = type === 'file' && files.get(key) === attrs.size;
      if (!isManagedFile && !(type === 'directory' && inside.has(key))) continue;
      const wanted = isManagedFile ? root.modes.file : root.modes.directory | (attrs.mode & 0o3000);
      if ((attrs.mode & 0o7777) === wanted) continue;
      if (dryRun || (await isChanged(root, key, wanted))) result.fixed += 1;
      else result.refused += 1;
    }
  });
  return result;
}

async function isChanged(root: SftpRoot, key: Key, mode: number): Promise<boolean> {
  try {
    await root.ask((sftp, done) => sftp.ext_openssh_lsetstat(root.at(key), { mode }, done));
    return true;
  } catch (error) {
    if (error instanceof DisconnectError) throw error;
    return false;
  }
}
