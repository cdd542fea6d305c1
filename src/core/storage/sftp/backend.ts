import { posix } from 'node:path';
import type { Kinds, Settings } from '../../lib/settings/declare.ts';
import { type PathBase, resolvePath } from '../../lib/settings/values.ts';
import type { Place, StorageBackend } from '../backend.ts';
import { type ModesDocument, modeSettings, resolveModes } from '../modes.ts';
import { describeSftp, type SftpDocument, type SftpLocation } from './location.ts';

export const sftpBackend: StorageBackend<'sftp', SftpDocument, SftpLocation, SftpDocument & ModesDocument> = {
  name: 'sftp',
  summary: 'A directory of an SSH server, over SFTP.',
  settings,
  destinationSettings: modeSettings,
  setTogether: [],
  resolve: resolveSftp,
  resolveDestination: (document, base) => ({ ...resolveSftp(document, base), modes: resolveModes(document) }),
  secrets: ({ sshKeyPassphraseEnv }) => (sshKeyPassphraseEnv === null ? [] : [sshKeyPassphraseEnv]),
  describe: describeSftp,
  place: placeOf,
  localPaths: ({ sshKeyFile }) =>
    sshKeyFile === null ? [] : [{ setting: 'ssh_key_file', path: sshKeyFile, use: 'private' }],
  placeSetting: 'path',
  destinationFault: () => null,
  fileConcurrency: { files: 8, because: null },
  protectedRoot: () => null,
  open: async (location, context, options) => {
    const { sftpStorage } = await import('./driver.ts');
    return sftpStorage(location, { ...context, ...options });
  },
};

function settings({ host, integer, matching, remotePath, path, environmentName, choice }: Kinds): Settings {
  return {
    host: host().required().description('Name or address of the SFTP server.').example('sftp.example.org'),
    port: integer(1, 65_535).default(22).description('Port of the SFTP server.'),
    user: matching(/^[^\s:@\u0000-\u001f\u007f]{1,255}$/, 'a user name')
      .required()
      .description('User to log in as.')
      .example('publisher'),
    path: remotePath()
      .required()
      .description('Directory on the server; a relative one begins at the login directory.')
      .example('/srv/maps'),
    ssh_key_file: path()
      .description(
        'Private key file. An SSH agent, where there is one, is asked first. Passwords are not supported.',
      )
      .example('~/.ssh/id_ed25519'),
    ssh_key_passphrase_env: environmentName()
      .description(
        'Environment variable, or file in secrets.directory, that holds the passphrase of the private key.',
      )
      .example('DEPLOY_KEY_PASSPHRASE'),
    ssh_agent_socket: path()
      .description(
        'Socket of the SSH agent. Without it: the one that SSH_AUTH_SOCK names, where that is set.',
      )
      .example('/run/user/1000/ssh-agent.socket'),
    host_key_policy: choice('strict', 'accept-new', 'off')
      .default('accept-new')
      .description(
        'What to do with host keys: strict takes known ones only, accept-new also remembers those of unknown hosts, off does not check at all (unsafe).',
      ),
    known_hosts_file: path()
      .default('~/.ssh/known_hosts')
      .description('File of known host keys, in the form of OpenSSH.'),
    max_requests: integer(1, 1024)
      .default(64)
      .description('Requests in flight on one connection; 1 for servers that bear no more.'),
    max_connections: integer(1, 16)
      .default(4)
      .description(
        'Connections that a large file is written over where the line is long (10 ms there and back, or more); 1: never more than one.',
      ),
  };
}

function resolveSftp(document: SftpDocument, base: PathBase): SftpLocation {
  const optionalPath = (path: string | undefined): string | null =>
    path === undefined ? null : resolvePath(path, base);
  return {
    backend: 'sftp',
    host: document.host,
    port: document.port,
    user: document.user,
    path: document.path,
    sshKeyFile: optionalPath(document.ssh_key_file),
    sshKeyPassphraseEnv: document.ssh_key_passphrase_env ?? null,
    sshAgentSocket: optionalPath(document.ssh_agent_socket),
    hostKeyPolicy: document.host_key_policy,
    knownHostsFile: resolvePath(document.known_hosts_file, base),
    maxRequests: document.max_requests,
    maxConnections: document.max_connections,
  };
}

function placeOf({ host, port, user, path }: SftpLocation): Place {
  // A relative path begins at the login directory of the user.
  const start = path.startsWith('/') ? '' : `~${user}/`;
  const root = posix.normalize(start + path).replace(/(?<=.)\/+$/, '');
  return { container: `sftp ${host.toLowerCase()}:${port}`, root };
}
