import type { Stats } from 'ssh2';
import { ConnectionLost } from './errors.ts';
import type { SftpRoot } from './root.ts';
import type { SftpSession } from './session.ts';

/** Sessions whose server refused to change a mode: it is not asked again. */
const refusing = new WeakSet<SftpSession>();

/**
 * Gives a new file or directory exactly this mode, if the umask of the server took rights away from it. A
 * directory keeps its setgid and sticky bits. Does nothing if the server reports no mode, or refuses to
 * change one: the bytes are more important. Rejects with `ConnectionLost` only.
 */
export async function applyMode(
  session: SftpSession,
  path: string,
  made: { mode?: number },
  mode: number,
): Promise<void> {
  const found = made.mode;
  if (found === undefined || (found & 0o777) === mode || refusing.has(session)) return;
  try {
    await session.ask((sftp, done) => sftp.setstat(path, { mode: mode | (found & 0o3000) }, done));
  } catch (error) {
    if (error instanceof ConnectionLost) throw error;
    refusing.add(session);
  }
}

/** The same for a directory that was just made. Its mode is looked at first: it may have got setgid. */
export async function applyDirectoryMode(root: SftpRoot, directory: string): Promise<void> {
  const session = await root.connected();
  if (refusing.has(session)) return;
  const made = await session
    .ask<Stats>((sftp, done) => sftp.lstat(directory, done))
    .catch((error: unknown) => {
      if (error instanceof ConnectionLost) throw error;
      return null;
    });
  if (made?.isDirectory() === true) await applyMode(session, directory, made, root.modes.directory);
}
