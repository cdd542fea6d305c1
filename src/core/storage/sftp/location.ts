import { stat } from 'node:fs/promises';
import type { FileModes } from '../modes.ts';

/** A directory of an SFTP server, as the configuration file has it. */
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

/** A directory of an SFTP server; paths of this machine are absolute. */
export interface SftpLocation {
  backend: 'sftp';
  host: string;
  /** 1 to 65535. */
  port: number;
  user: string;
  /** On the server; a relative one begins at the login directory. */
  path: string;
  sshKeyFile: string | null;
  /** Modes of new files and directories. Only destinations have them; others are private to the user. */
  modes?: FileModes;
  /** Variable that holds the passphrase of the key; null if it has none. */
  sshKeyPassphraseEnv: string | null;
  /** Path of the agent's socket; null: `SSH_AUTH_SOCK`, if it is set. */
  sshAgentSocket: string | null;
  hostKeyPolicy: 'strict' | 'accept-new' | 'off';
  knownHostsFile: string;
  /** Requests in flight on one connection, 1 to 1024; 1 for servers that allow no more. */
  maxRequests: number;
  /** Connections for one large file, 1 to 16; 1: never a further one. */
  maxConnections: number;
}

export function describeSftp({ user, host, port, path }: SftpLocation): string {
  return `sftp://${user}@${host}:${port}${path}`;
}

/**
 * The mode of a private key that other users may read, or null. As in OpenSSH, a file of another owner is
 * not checked: systemd grants services access to credentials of root by an access list.
 */
export async function openToOthers(file: string): Promise<string | null> {
  const { mode, uid } = await stat(file);
  if (uid !== process.getuid?.() || (mode & 0o077) === 0) return null;
  return (mode & 0o777).toString(8).padStart(4, '0');
}
