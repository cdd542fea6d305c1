import { parentOf, type Key } from '../key.ts';
import type { SftpDirectories } from './directories.ts';
import { ConnectionLost, isUnsupported } from './errors.ts';
import type { SftpRoot } from './root.ts';

/**
 * Gives the file at `from` a second name; false if the server makes no hard links, or refuses this one for
 * whatever reason. Rejects with `ConnectionLost`.
 */
export type HardLink = (from: Key, to: Key) => Promise<boolean>;

export function sftpHardLinks(root: SftpRoot, directories: SftpDirectories): HardLink {
  const { at, ask } = root;
  let hasLinks = true;
  /** Some servers (rclone) say that they have made one, and have not: the first is looked for. */
  let isProven = false;
  // It may be another server by then.
  root.onReconnect(() => ([hasLinks, isProven] = [true, false]));
  return async (from, to) => {
    if (!hasLinks) return false;
    await directories.create(parentOf(to));
    try {
      await ask((sftp, done) => sftp.ext_openssh_hardlink(at(from), at(to), done));
      isProven ||= (await root.lstat(to)) !== undefined;
      hasLinks = isProven;
      return isProven;
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      // A server that does not offer the extension is not even asked, so there is no answer then.
      if (isUnsupported(error)) hasLinks = false;
      return false;
    }
  };
}
