import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Test } from 'tap';
import { program } from './process.ts';

/** A daemon of the built program, on a free port. */
export interface Daemon {
  url: string;
  port: number;
  process: ChildProcess;
  /** The log line of the daemon that lists its addresses. */
  listening: { url?: string; console?: string; docs?: string };
}

/**
 * Starts `waybill serve -c c.yml` in `place`, with this build or `file`, and this Node.js or `node`.
 * Resolves when it listens.
 */
export async function startDaemon(
  t: Pick<Test, 'teardown'>,
  place: string,
  env: Record<string, string>,
  file = program,
  node = process.execPath,
  flags: readonly string[] = [],
): Promise<Daemon> {
  const child = spawn(node, [file, 'serve', '-c', 'c.yml', ...flags], {
    cwd: place,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.teardown(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  const said: string[] = [];
  for await (const line of createInterface({ input: child.stderr })) {
    said.push(line);
    const listening = JSON.parse(line) as Daemon['listening'];
    const { url } = listening;
    if (url === undefined) continue;
    child.stderr.resume();
    return { url, port: Number(new URL(url).port), process: child, listening };
  }
  throw new Error(`the daemon did not start:\n${said.join('\n')}`);
}
