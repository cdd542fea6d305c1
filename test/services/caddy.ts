import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';
import { ensureInstalled } from './debian.ts';
import { freePort } from './free-port.ts';
import { startWebServer } from './web-server.ts';

/**
 * Debian's caddy with one site with these directives. Installed if it is missing. Returns its URL, which
 * supports HTTP/1.1 and HTTP/2 without TLS.
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
  await startWebServer(t, {
    program: 'caddy',
    args: ['run', '--config', file, '--adapter', 'caddyfile'],
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: directory,
      XDG_DATA_HOME: directory,
      XDG_CONFIG_HOME: directory,
    },
    ...{ directory, url },
  });
  return url;
}
