import { type ChildProcess, execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { ensureInstalled } from './debian.ts';
import { freePort } from './free-port.ts';
import { cleanUpAtExit, endService, spawnService } from './service-process.ts';

const run = promisify(execFile);

export interface RedisService {
  url: string;
  port: number;
  /** Ends the server and keeps its data on disk. `SIGKILL` gives it no time to write anything. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  /** Starts it again on the same port and directory. */
  start(): Promise<void>;
  /** The output of `redis-cli`. */
  cli(...args: string[]): Promise<string>;
  /** Ends it and removes its directory. */
  close(): Promise<void>;
}

/**
 * Debian's redis-server on a free port of `host`, with its append-only file enabled. Installed if it is
 * missing.
 */
export async function startRedis(
  settings: { host?: string; args?: readonly string[]; password?: string } = {},
): Promise<RedisService> {
  await ensureInstalled('redis');
  const { host = '127.0.0.1', args = [], password } = settings;
  const directory = await mkdtemp(path.join(tmpdir(), 'waybill-redis-'));
  const port = await freePort();
  const auth = password === undefined ? [] : ['--requirepass', password];
  let child: ChildProcess | undefined;
  const start = async (): Promise<void> => {
    if (child !== undefined) return;
    const base = [
      '--port',
      String(port),
      '--bind',
      host,
      '--dir',
      directory,
      '--save',
      '',
      '--appendonly',
      'yes',
    ];
    const started = spawnService('redis-server', [...base, ...auth, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child = started;
    await new Promise<void>((resolve, reject) => {
      let log = '';
      started.stdout?.on('data', (chunk: Buffer) => {
        log += chunk.toString();
        if (log.includes('Ready to accept connections')) resolve();
      });
      started.once('exit', () => {
        if (child === started) child = undefined;
        reject(new Error(`redis-server ended:\n${log}`));
      });
    });
  };
  const stop = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<void> => {
    const ending = child;
    child = undefined;
    if (ending !== undefined) await endService(ending, signal);
  };
  const revoke = cleanUpAtExit(directory, () => (child === undefined ? [] : [child]));
  await start();
  return {
    url: `redis://${password === undefined ? '' : `:${password}@`}${host}:${port}`,
    port,
    start,
    stop,
    cli: async (...words) => {
      const login = password === undefined ? [] : ['-a', password, '--no-auth-warning'];
      const { stdout } = await run('redis-cli', ['-h', host, '-p', String(port), ...login, ...words]);
      return stdout.trim();
    },
    close: async () => {
      revoke();
      await stop('SIGKILL');
      await rm(directory, { recursive: true, force: true });
    },
  };
}
