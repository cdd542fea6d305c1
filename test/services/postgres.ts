import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chown, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ensureInstalled, pathOf } from './debian.ts';
import { freePort } from './free-port.ts';
import { cleanUpAtExit, endService, hasEnded, spawnService } from './service-process.ts';

const run = promisify(execFile);

export interface PostgresServer {
  port: number;
  /** The connection URL of a role and a database. Default: the superuser. */
  url(role?: string): string;
  /** The server's log so far. With `log_statement=all`, it has every statement. */
  log(): Promise<string>;
  stop(): Promise<void>;
  start(): Promise<void>;
  /** Ends the server and removes its files. */
  remove(): Promise<void>;
}

/**
 * A separate PostgreSQL server on a free loopback port, as a foreground child. Debian's package is installed
 * if it is missing.
 */
export async function startPostgres(): Promise<PostgresServer> {
  await ensureInstalled('postgres');
  const [initdb, postgres, isReady] = ['initdb', 'postgres', 'pg_isready'].map(
    (name) => pathOf(name) as string,
  );
  const user: { uid?: number; gid?: number } = process.getuid?.() === 0 ? await userOf('postgres') : {};
  const directory = await mkdtemp(join(tmpdir(), 'waybill-postgres-'));
  if (user.uid !== undefined && user.gid !== undefined) await chown(directory, user.uid, user.gid);
  const data = join(directory, 'data');
  await ended(
    spawn(
      initdb as string,
      ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync', '--locale=C.UTF-8'],
      { ...user, cwd: directory, stdio: 'ignore' },
    ),
  );
  const port = await freePort();
  const log = join(directory, 'data', 'server.log');
  let child: ChildProcess | undefined;

  const tryToStart = async (): Promise<string | null> => {
    const settings = {
      port,
      listen_addresses: '127.0.0.1',
      unix_socket_directories: directory,
      fsync: 'off',
      log_statement: 'all',
      logging_collector: 'on',
      log_directory: '.',
      log_filename: 'server.log',
      log_line_prefix: '%a|',
    };
    const started = spawnService(
      postgres as string,
      ['-D', data, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
      { ...user, cwd: directory, stdio: 'ignore' },
    );
    child = started;
    for (;;) {
      const ready = await run(isReady as string, ['-h', '127.0.0.1', '-p', String(port)]).catch(() => null);
      if (ready !== null) return null;
      if (hasEnded(started)) return `postgres ended with ${started.signalCode ?? started.exitCode}`;
    }
  };
  // A restart may fail while backends of the stopped server hold its shared memory, or a client has the port.
  const start = async (): Promise<void> => {
    for (let tries = 1; ; tries += 1) {
      const failure = await tryToStart();
      if (failure === null) return;
      if (tries === 20) throw new Error(failure);
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  };
  const stop = async (): Promise<void> => {
    const running = child;
    child = undefined;
    // Fast shutdown: clients are disconnected.
    if (running !== undefined) await endService(running, 'SIGINT');
  };
  const revoke = cleanUpAtExit(directory, () => (child === undefined ? [] : [child]));
  await start();
  return {
    port,
    url: (role = 'postgres') => `postgres://${role}@127.0.0.1:${port}/postgres`,
    log: () => readFile(log, 'utf8'),
    start,
    stop,
    remove: async () => {
      revoke();
      await stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function userOf(name: string): Promise<{ uid: number; gid: number }> {
  const [uid, gid] = await Promise.all(
    ['-u', '-g'].map(async (flag) => Number((await run('id', [flag, name])).stdout)),
  );
  return { uid: uid ?? 0, gid: gid ?? 0 };
}

async function ended(child: ChildProcess): Promise<void> {
  const code = await new Promise<number | null>((resolve, reject) =>
    child.once('exit', resolve).once('error', reject),
  );
  if (code !== 0) throw new Error(`initdb ended with ${code}`);
}
