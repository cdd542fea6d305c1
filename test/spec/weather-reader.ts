import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Test } from 'tap';
import { program, World } from './harness.ts';

/* Starts the weather reader. */

export interface Reader {
  url: string;
  lines: string[];
  /** Sends a signal. Resolves to the exit code. */
  end(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Starts the reader in a directory. Rejects with its log if it ends before it listens. */
export async function startReader(
  t: Pick<Test, 'teardown'>,
  cwd: string,
  args: string[],
  env: Record<string, string>,
): Promise<Reader> {
  const child = spawn(process.execPath, [program, 'weather', ...args], {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', HOME: cwd, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exit = once(child, 'close');
  t.teardown(() => child.kill('SIGKILL'));
  const lines: string[] = [];
  const log = createInterface(child.stderr);
  const end = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> => {
    child.kill(signal);
    await exit;
    return child.exitCode;
  };
  return new Promise((resolve, reject) => {
    log.on('line', (line) => {
      lines.push(line);
      const url = /listening .*url=(\S+)/.exec(line)?.[1];
      if (url !== undefined) resolve({ url, lines, end });
    });
    void exit.then(() => reject(new Error(lines.join('\n'))));
  });
}

/** A directory with configurations, and the templates below `templates`. */
export function place(t: Pick<Test, 'teardown'>, files: Record<string, string>): World {
  const made = new World(t, '');
  for (const [name, text] of Object.entries(files)) made.write(name, text);
  cpSync(path.resolve('templates/weather'), made.at('templates'), { recursive: true });
  return made;
}
