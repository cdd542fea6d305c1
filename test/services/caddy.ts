import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';
import { systemClock } from '../../src/core/clock.ts';
import { ensureInstalled } from './debian.ts';
import { freePort } from './free-port.ts';

/**
 * Debian's caddy with one site of these directives; installed where it is missing. Gives its URL, which
 * speaks HTTP/1.1 and HTTP/2 without TLS.
 */
export async function startCaddy(t: Pick<Test, 'teardown'>, directives: string): Promise<string> {
  await ensureInstalled('caddy');
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-caddy-'));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const file = path.join(directory, 'Caddyfile');
  writeFileSync(
    file,
    `{
	admin off
	auto_https off
	servers {
		protocols h1 h2c
	}
}
${url} {
${directives}
}
`,
  );
  const child = spawn('caddy', ['run', '--config', file, '--adapter', 'caddyfile'], {
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: directory,
      XDG_DATA_HOME: directory,
      XDG_CONFIG_HOME: directory,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const exited = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGKILL');
    await exited;
    rmSync(directory, { recursive: true, force: true });
  });
  while (!(await answers(url))) {
    if (child.exitCode !== null) throw new Error(`caddy ended:\n${log}`);
    await systemClock.sleep(20);
  }
  return url;
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  );
}
