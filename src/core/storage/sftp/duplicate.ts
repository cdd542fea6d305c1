import { applyMode } from './apply-mode.ts';
import { WaybillError } from '../../lib/errors.ts';
import type { Key } from '../key.ts';
import type { SftpDirectories } from './directories.ts';
import { ConnectionLost, isAbsent, isUnsupported } from './errors.ts';
import type { HardLink } from './hard-links.ts';
import { typeOf, type SftpRoot } from './root.ts';
import { closeFile, requireSize, statOf, syncFile } from './transfer.ts';

/** Whoever may change a file that has two names changes both. */
const writableByOthers = 0o022;
/** So much is copied by one request, which has to be answered in time. */
const bytesPerRequest = 32 << 20;

/**
 * As `Storage.duplicate`, where nothing is at `to`: a hard link if the server makes one, else a copy if it
 * offers `copy-data`. Rejects as `SftpSession.ask` does.
 */
export function sftpDuplicator(
  root: SftpRoot,
  directories: SftpDirectories,
  hardLink: HardLink,
): (from: Key, to: Key) => Promise<'link' | 'copy' | null> {
  let copies = true;
  return async (from, to) => {
    const found = await root.lstat(from);
    if (found === undefined || typeOf(found) !== 'file') return null;
    if ((found.mode & writableByOthers) === 0 && (await hardLink(from, to))) return 'link';
    if (!copies) return null;
    try {
      await directories.withParent(to, async () => copy(from, to, found.size));
      return 'copy';
    } catch (error) {
      if (error instanceof ConnectionLost || error instanceof WaybillError) throw error;
      await root.ask((sftp, done) => sftp.unlink(root.at(to), done)).catch(unlessLost);
      // A server that does not offer the extension is not even asked, so there is no answer then.
      if (isUnsupported(error)) copies = false;
      else if (!isAbsent(error)) throw error;
      return null;
    }
  };

  async function copy(from: Key, to: Key, size: number): Promise<void> {
    const session = await root.connected();
    const source = await session.ask<Buffer>((sftp, done) => sftp.open(root.at(from), 'r', done));
    try {
      const target = await session.ask<Buffer>((sftp, done) =>
        sftp.open(root.at(to), 'w', { mode: root.modes.file }, done),
      );
      try {
        for (let at = 0; at < size; at += bytesPerRequest) {
          const length = Math.min(bytesPerRequest, size - at);
          await session.ask((sftp, done) => sftp.ext_copy_data(source, at, length, target, at, done));
        }
        await syncFile(session, target);
        const stored = await statOf(session, target);
        requireSize(stored.size, size);
        await applyMode(session, root.at(to), stored, root.modes.file);
      } finally {
        await closeFile(session, target).catch(unlessLost);
      }
    } finally {
      await closeFile(session, source).catch(unlessLost);
    }
  }
}

/** What a failure leaves open or lying about goes with the connection, or is swept with its staging. */
function unlessLost(error: unknown): void {
  if (error instanceof ConnectionLost) throw error;
}
