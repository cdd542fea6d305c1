import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import type { Test } from 'tap';

/**
 * Starts a server in the foreground, waits until its port takes connections, and ends it, with all that it
 * started, when the test does. What it writes goes to `server.log` in the directory, and is told if it ends.
 */
export async function startServer(
  t: Pick<Test, 'teardown'>,
  command: readonly string[],
  { port, directory, env = {} }: { port: number; directory: string; env?: Record<string, string> },
): Promise<void> {
  const file = path.join(directory, 'server.log');
  const log = openSync(file, 'a');
  const [program = '', ...args] = command;
  const child = spawn(program, args, {
    cwd: directory,
    env: { PATH: process.env['PATH'] ?? '', HOME: directory, LANG: 'C.UTF-8', LC_ALL: 'C.UTF-8', ...env },
    stdio: ['ignore', log, log],
    detached: true,
  });
  closeSync(log);
  const kill = (): void => endGroup(child);
  process.once('exit', kill);
  t.teardown(async () => {
    process.removeListener('exit', kill);
    const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined;
    kill();
    await ended;
  });
  while (!(await takesConnections(port))) {
    if (child.exitCode !== null || child.signalCode !== null)
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
