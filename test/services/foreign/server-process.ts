import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';
import { hasEnded, spawnService } from '../service-process.ts';

/** A directory for servers with this name, which is removed when they have ended. Create it before them. */
export function ownDirectory(t: Pick<Test, 'teardown'>, name: string): string {
  const directory = mkdtempSync(path.join(tmpdir(), `waybill-${name}-`));
  t.teardown(() => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }));
  return directory;
}

/**
 * Starts a server in the foreground, waits until its port accepts connections, and ends it with its children
 * when the test ends. Its output is in `server.log` in the directory, and is reported if the server exits.
 * If the test is killed, the kernel ends the server, and `npm test` ends its children.
 */
export async function startServer(
  t: Pick<Test, 'teardown'>,
  command: readonly string[],
  { port, directory, env = {} }: { port: number; directory: string; env?: Record<string, string> },
): Promise<void> {
  const file = path.join(directory, 'server.log');
  const log = openSync(file, 'a');
  const [program = '', ...args] = command;
  const child = spawnService(program, args, {
    cwd: directory,
    env: {
      ...{ PATH: process.env['PATH'] ?? '', HOME: directory, LANG: 'C.UTF-8', LC_ALL: 'C.UTF-8' },
      ...{ WAYBILL_TEST_FILE: process.env['WAYBILL_TEST_FILE'] ?? '' },
      ...env,
    },
    stdio: ['ignore', log, log],
    detached: true,
  });
  closeSync(log);
  const kill = (): void => endGroup(child);
  process.once('exit', kill);
  t.teardown(async () => {
    process.removeListener('exit', kill);
    const ended = hasEnded(child) ? undefined : once(child, 'exit');
    kill();
    await ended;
  });
  while (!(await takesConnections(port))) {
    if (hasEnded(child))
      throw new Error(`${program} ended before it served:\n${readFileSync(file, 'utf8').slice(-6000)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function takesConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
      .once('connect', () => {
        socket.destroy();
        resolve(true);
      })
      .once('error', () => resolve(false));
  });
}
