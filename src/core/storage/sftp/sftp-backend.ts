import { posix } from 'node:path';
import type { Kinds, Settings } from '../../lib/settings/declare.ts';
import { type PathBase, resolvePath } from '../../lib/settings/parse-values.ts';
import type { StorageBackend, StorageRoot } from '../backend.ts';
import { type ModesDocument, modeSettings, resolveModes } from '../modes.ts';
import { describeSftp, type SftpDocument, type SftpLocation } from './sftp-location.ts';

export const sftpBackend: StorageBackend<'sftp', SftpDocument, SftpLocation, SftpDocument & ModesDocument> = {
  name: 'sftp',
  summary: 'A directory on an SSH server, over SFTP.',
  settings,
  destinationSettings: modeSettings,
  setTogether: [],
  resolve: resolveSftp,
  resolveDestination: (document, base) => ({ ...resolveSftp(document, base), modes: resolveModes(document) }),
  secrets: ({ sshKeyPassphraseEnv }) => (sshKeyPassphraseEnv === null ? [] : [sshKeyPassphraseEnv]),
  describe: describeSftp,
  place: storageRootOf,
  localPaths: ({ sshKeyFile }) =>
    sshKeyFile === null ? [] : [{ setting: 'ssh_key_file', path: sshKeyFile, use: 'private' }],
  placeSetting: 'path',
  destinationFault: () => null,
  fileConcurrency: { files: 8, because: null },
  protectedRoot: () => null,
  open: async (location, context, options) => {
    const { sftpStorage } = await import('./sftp-storage.ts');
    return sftpStorage(location, { ...context, ...options });
  },
};

function settings({ host, integer, matching, remotePath, path, environmentName, choice }: Kinds): Settings {
  return {
    host: host('with port')
      .required()
      .description('Name or address of the SFTP server.')
      .example('sftp.example.org'),
    port: integer(1, 65_535).default(22).description('Port of the SFTP server.'),
    user: matching(/^[^\s:@\u0000-\u001f\u007f]{1,255}$/, 'a user name')
      .required()
      .description('User name for the login.')
      .example('publisher'),
    path: remotePath().required().description('The directory on the server.').example('/srv/maps'),
    ssh_key_file: path()
      .description('Private key file. Keys of the SSH agent are tried first.')
      .example('~/.ssh/id_ed25519'),
    ssh_key_passphrase_env: environmentName()
      .description(
        'Environment variable, or file in secrets.directory, with the passphrase of the private key.',
      )
      .example('DEPLOY_KEY_PASSPHRASE'),
    ssh_agent_socket: path()
      .description('Socket of the SSH agent. Default: SSH_AUTH_SOCK, if set.')
      .example('/run/user/1000/ssh-agent.socket'),
    host_key_policy: choice('strict', 'accept-new', 'off')
      .default('accept-new')
      .description(
        'Host keys. strict: only known ones. accept-new: keys of unknown hosts are added to known_hosts. off: no verification (unsafe).',
      ),
    known_hosts_file: path().default('~/.ssh/known_hosts').description('Known host keys, in OpenSSH format.'),
    max_requests: integer(1, 1024)
      .default(64)
      .description('Maximum requests in flight per connection. Some servers support only 1.'),
    max_connections: integer(1, 16)
      .default(4)
      .description('Maximum connections for one large file if the round trip takes 10 ms or more.'),
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

function storageRootOf({ host, port, user, path }: SftpLocation): StorageRoot {
  // Relative paths start in the user's login directory.
  const start = path.startsWith('/') ? '' : `~${user}/`;
  const root = posix.normalize(start + path).replace(/(?<=.)\/+$/, '');
  return { container: `sftp ${host.toLowerCase()}:${port}`, root };
}
