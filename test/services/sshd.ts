import { type ChildProcess, execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import type { Secrets } from '../../src/core/lib/secrets.ts';
import type { SftpLocation } from '../../src/core/storage/sftp/sftp-location.ts';
import { ensureInstalled, pathOf } from './debian.ts';
import { freePort } from './free-port.ts';
import { cleanUpAtExit, endService, hasEnded, spawnService } from './service-process.ts';

const run = promisify(execFile);

/** An SFTP server on loopback that serves local directories unchanged. */
export interface SftpServer {
  host: '127.0.0.1';
  port: number;
  user: string;
  /** A separate directory, initially empty. */
  root: string;
  /**
   * Private keys that can log in: one without a passphrase, and the same one with the passphrase
   * `passphrase`.
   */
  clientKeyFile: string;
  encryptedKeyFile: string;
  /** The public key of the server. */
  hostKeyFile: string;
  /** The known_hosts file of the tests' clients, which does not exist initially. */
  knownHostsFile: string;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export const passphrase = 'correct horse';

/**
 * Starts OpenSSH with its internal SFTP server and additional `settings` in its sshd_config, and ends it
 * with the test. Installs missing packages.
 */
export async function startSshd(
  t: Pick<Test, 'teardown'>,
  {
    settings = [],
    limits = {},
    subsystem = 'internal-sftp',
  }: {
    settings?: string[];
    limits?: Partial<Record<'MaxStartups' | 'MaxSessions', number>>;
    subsystem?: string | null;
  } = {},
): Promise<SftpServer> {
  await ensureInstalled('ssh');
  const program = pathOf('sshd') as string;
  if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true });
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-sshd-'));
  const files = await makeKeys(directory);
  const port = await freePort();
  const config = path.join(directory, 'sshd_config');
  writeFileSync(
    config,
    [
      `Port ${port}`,
      'ListenAddress 127.0.0.1',
      `HostKey ${path.join(directory, 'host_key')}`,
      `AuthorizedKeysFile ${path.join(directory, 'authorized_keys')}`,
      `PidFile none`,
      'UsePAM no',
      'StrictModes no',
      'PasswordAuthentication no',
      'KbdInteractiveAuthentication no',
      'PermitRootLogin yes',
      ...Object.entries({ MaxStartups: 100, MaxSessions: 100, ...limits }).map((limit) => limit.join(' ')),
      'LogLevel ERROR',
      ...(subsystem === null ? [] : [`Subsystem sftp ${subsystem}`]),
      ...settings,
      '',
    ].join('\n'),
  );

  let child: ChildProcess | undefined;
  const stop = async (): Promise<void> => {
    if (child === undefined) return;
    const sessions = await childrenOf(child.pid as number);
    const ended = endService(child);
    for (const pid of sessions) endProcess(pid);
    await ended;
    child = undefined;
  };
  const start = async (): Promise<void> => {
    child = spawnService(program, ['-D', '-e', '-f', config], { stdio: ['ignore', 'ignore', 'inherit'] });
    await greets(port, child);
  };
  const revoke = cleanUpAtExit(directory, () => (child === undefined ? [] : [child]));
  t.teardown(async () => {
    revoke();
    await stop();
    rmSync(directory, { recursive: true, force: true });
  });
  await start();
  const restart = async (): Promise<void> => {
    await stop();
    await start();
  };
  return { host: '127.0.0.1', port, user: userInfo().username, ...files, restart, stop };
}

/** The location of a directory of the server, as in the configuration. */
export function sftpLocationOf(server: SftpServer, place: string): SftpLocation {
  return {
    backend: 'sftp',
    host: server.host,
    port: server.port,
    user: server.user,
    path: place,
    sshKeyFile: server.clientKeyFile,
    sshKeyPassphraseEnv: null,
    sshAgentSocket: null,
    hostKeyPolicy: 'accept-new',
    knownHostsFile: server.knownHostsFile,
    maxRequests: 64,
    maxConnections: 4,
  };
}

/** For clients without secrets: their key is a file. */
export const noSecrets: Secrets = { get: () => undefined, require: () => '', warnings: [] };

/** New keys of the server and of its client. */
export async function makeKeys(
  directory: string,
): Promise<
  Pick<SftpServer, 'root' | 'clientKeyFile' | 'encryptedKeyFile' | 'hostKeyFile' | 'knownHostsFile'>
> {
  await ensureInstalled('ssh');
  const at = (name: string): string => path.join(directory, name);
  const makeKey = (name: string): Promise<unknown> =>
    run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'waybill test', '-f', at(name)]);
  await Promise.all([makeKey('host_key'), makeKey('client_key')]);
  const key = readFileSync(at('client_key'));
  writeFileSync(at('encrypted_key'), key, { mode: 0o600 });
  await run('ssh-keygen', ['-q', '-p', '-P', '', '-N', passphrase, '-f', at('encrypted_key')]);
  writeFileSync(at('authorized_keys'), readFileSync(at('client_key.pub')));
  mkdirSync(at('root'));
  return {
    root: at('root'),
    clientKeyFile: at('client_key'),
    encryptedKeyFile: at('encrypted_key'),
    hostKeyFile: at('host_key.pub'),
    knownHostsFile: at('known/known_hosts'),
  };
}

/** Resolves when the server has sent its greeting. Throws if it has ended. */
async function greets(port: number, server: ChildProcess): Promise<void> {
  const { connect } = await import('node:net');
  for (;;) {
    if (hasEnded(server)) throw new Error(`sshd ended with ${server.signalCode ?? server.exitCode}`);
    const isUp = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1');
      // sshd logs clients that disconnect without a greeting.
      socket.once('data', () => {
        socket.end('SSH-2.0-waybill-test\r\n');
        resolve(true);
      });
      socket.once('error', () => resolve(false));
      socket.once('close', () => resolve(false));
    });
    if (isUp) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** The processes of the sessions, which survive a kill of the server. */
async function childrenOf(pid: number): Promise<number[]> {
  const threads = `/proc/${pid}/task`;
  const lists = await readdir(threads)
    .then(async (ids) => Promise.all(ids.map(async (id) => readFile(`${threads}/${id}/children`, 'utf8'))))
    .catch(() => []);
  const direct = lists.flatMap((list) => list.split(' ').map(Number)).filter((each) => each > 0);
  const below = await Promise.all(direct.map(async (each) => childrenOf(each)));
  return [...direct, ...below.flat()];
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
