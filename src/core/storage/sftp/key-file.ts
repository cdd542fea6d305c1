import { stat } from 'node:fs/promises';

/**
 * The mode of a private key that others than its owner may read, or null. As in OpenSSH, a file of another
 * owner is that owner's affair: systemd gives credentials of root's to a service by an access list.
 */
export async function openToOthers(file: string): Promise<string | null> {
  const { mode, uid } = await stat(file);
  if (uid !== process.getuid?.() || (mode & 0o077) === 0) return null;
  return (mode & 0o777).toString(8).padStart(4, '0');
}
