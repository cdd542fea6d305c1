import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';
import { ensureInstalled } from './debian.ts';
import { freePort } from './free-port.ts';
import { startWebServer } from './web-server.ts';

/**
 * Debian's nginx with one server with these directives, and other `http` directives. Installs it if it is
 * missing. Returns its HTTP port.
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
  await startWebServer(t, {
    program: 'nginx',
    args: ['-p', directory, '-c', file, '-e', 'stderr'],
    env: { PATH: `${process.env['PATH'] ?? ''}:/usr/sbin` },
    directory,
    url: `http://127.0.0.1:${port}/`,
  });
  return port;
}
