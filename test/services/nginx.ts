import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';
import { systemClock } from '../../src/core/clock.ts';
import { ensureInstalled } from './debian.ts';
import { freePort } from './free-port.ts';

/**
 * Debian's nginx with one server of these directives, and others of `http` beside it; installed where it is
 * missing. Gives the port at which it speaks HTTP.
 */
export async function startNginx(
  t: Pick<Test, 'teardown'>,
  { server, http = '' }: { server: string; http?: string },
): Promise<number> {
  await ensureInstalled('nginx');
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-nginx-'));
  const port = await freePort();
  const file = path.join(directory, 'nginx.conf');
  for (const name of ['body', 'proxy', 'other']) mkdirSync(path.join(directory, name));
  writeFileSync(
    file,
    `daemon off;
master_process off;
pid ${directory}/pid;
error_log stderr warn;
events {}
http {
access_log off;
client_body_temp_path ${directory}/body;
proxy_temp_path ${directory}/proxy;
fastcgi_temp_path ${directory}/other;
uwsgi_temp_path ${directory}/other;
scgi_temp_path ${directory}/other;
${http}
server {
listen 127.0.0.1:${port};
${server}
}
}
`,
  );
  const child = spawn('nginx', ['-p', directory, '-c', file, '-e', 'stderr'], {
    env: { PATH: `${process.env['PATH'] ?? ''}:/usr/sbin` },
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
  while (!(await answers(port))) {
    if (child.exitCode !== null) throw new Error(`nginx ended:\n${log}`);
    await systemClock.sleep(20);
  }
  return port;
}

async function answers(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/`).then(
    () => true,
    () => false,
  );
}
