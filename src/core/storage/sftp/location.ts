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

/** A directory on an SFTP server. Local paths are absolute. */
export interface SftpLocation {
  backend: 'sftp';
  host: string;
  /** 1 to 65535. */
  port: number;
  user: string;
  /** A path on the server. A relative path starts at the login directory. */
  path: string;
  sshKeyFile: string | null;
  /**
   * Modes of new files and directories. Set only for destinations. Other locations are private to the user.
   */
  modes?: FileModes;
  /** Environment variable that holds the key's passphrase, or null if the key has none. */
  sshKeyPassphraseEnv: string | null;
  /** Path of the agent's socket. If null, `SSH_AUTH_SOCK` is used if it is set. */
  sshAgentSocket: string | null;
  hostKeyPolicy: 'strict' | 'accept-new' | 'off';
  knownHostsFile: string;
  /** Maximum requests in flight per connection, 1 to 1024. Use 1 for servers that allow no more. */
  maxRequests: number;
  /** Maximum connections for one large file, 1 to 16. With 1, no additional connections are opened. */
  maxConnections: number;
}

export function describeSftp({ user, host, port, path }: SftpLocation): string {
  return `sftp://${user}@${host}:${port}${path}`;
}

/**
 * Returns the mode of a private key that other users can read, or null if they cannot. As in OpenSSH, a file
 * owned by another user is not checked: systemd uses access lists to give services access to root's
 * credentials.
 */
export async function openToOthers(file: string): Promise<string | null> {
  const { mode, uid } = await stat(file);
  if (uid !== process.getuid?.() || (mode & 0o077) === 0) return null;
  return (mode & 0o777).toString(8).padStart(4, '0');
}
