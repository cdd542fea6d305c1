import { stat } from 'node:fs/promises';
import type { FileModes } from '../modes.ts';

/** A directory on an SFTP server, as written in the configuration file. */
export interface SftpDocument {
  backend: 'sftp';
  host: string;
  port: number;
  user: string;
  path: string;
  ssh_key_file?: string;
  ssh_key_passphrase_env?: string;
  ssh_agent_socket?: string;
  host_key_policy: 'strict' | 'accept-new' | 'off';
  known_hosts_file: string;
  max_requests: number;
  max_connections: number;
}

/** A directory on an SFTP server. Paths on this machine are absolute. */
export interface SftpLocation {
  backend: 'sftp';
  host: string;
  /** 1 to 65535. */
  port: number;
  user: string;
  /** The path on the server. If it is relative, it starts in the login directory. */
  path: string;
  sshKeyFile: string | null;
  /**
   * The modes of new files and directories. Only set for destinations. In other locations, only this user has
   * access.
   */
  modes?: FileModes;
  /** The environment variable with the passphrase of the key. null if the key does not have one. */
  sshKeyPassphraseEnv: string | null;
  /** The socket of the SSH agent. If null, uses `SSH_AUTH_SOCK`, if that is set. */
  sshAgentSocket: string | null;
  hostKeyPolicy: 'strict' | 'accept-new' | 'off';
  knownHostsFile: string;
  /**
   * The maximum number of requests in flight per connection, from 1 to 1024. Some servers can only handle 1.
   */
  maxRequests: number;
  /** The maximum number of connections for a large file, from 1 to 16. 1 disables additional connections. */
  maxConnections: number;
}

export function describeSftp({ user, host, port, path }: SftpLocation): string {
  // A relative path begins at the home directory, which curl and rclone write like this.
  return `sftp://${user}@${host}:${port}${path.startsWith('/') ? '' : '/~/'}${path}`;
}

/**
 * Returns the mode of a private key if other users can read it, and null if they cannot. A file that belongs
 * to another user is not checked, which is what OpenSSH does, too: systemd uses access lists to give services
 * access to credentials that belong to root.
 */
export async function insecureKeyMode(file: string): Promise<string | null> {
  const { mode, uid } = await stat(file);
  if (uid !== process.getuid?.() || (mode & 0o077) === 0) return null;
  return (mode & 0o777).toString(8).padStart(4, '0');
}
