import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { startDaemon } from '../daemon.ts';
import { document, type Ended, program, waybill } from '../process.ts';

/** `--open` starts the desktop's program for opening addresses. A script replaces it here. */

interface Place {
  cwd: string;
  env: Record<string, string>;
  /** The addresses that were opened since the last call. */
  opened: () => string[];
}

function layOut(t: Test, more: object = {}): Place {
  const cwd = t.testdir({ site: { 'index.html': '<p>home</p>' }, bin: {}, ...more });
  const [script, list] = [path.join(cwd, 'bin', 'xdg-open'), path.join(cwd, 'opened')];
  writeFileSync(script, '#!/bin/sh\nprintf "%s\\n" "$1" >> "$OPENED"\nexit "${OPEN_CODE:-0}"\n');
  chmodSync(script, 0o755);
  const opened = (): string[] => {
    const text = existsSync(list) ? readFileSync(list, 'utf8') : '';
    rmSync(list, { force: true });
    return text.split('\n').filter((line) => line !== '');
  };
  return { cwd, opened, env: { PATH: path.dirname(script), OPENED: list } };
}

t.test('publish opens the public URL of the destination or channel', async (t) => {
  const { cwd, env, opened } = layOut(t);
  const publish = (args: string[], more: Record<string, string> = {}): Ended =>
    waybill(['publish', 'site', 'www', '--releases', '--open', ...args], { cwd, env: { ...env, ...more } });
  const url = ['--url', 'https://www.example.org/docs'];
  t.match(publish(url), { status: 0, stderr: '' });
  t.same(opened(), ['https://www.example.org/docs/']);
  publish([...url, '--channel', 'pr-12', '--channel-url', 'https://pr-12.example.org']);
  t.same(opened(), ['https://pr-12.example.org/']);
  t.match(publish([]), { status: 0, stderr: /^note {2}nothing to open: .* --url sets it\n$/ });
  t.match(publish([...url, '--dry-run']), { status: 2, stderr: /--dry-run publishes nothing/ });
  t.same(opened(), []);

  const failed = publish(url, { OPEN_CODE: '3' });
  t.match(failed, {
    status: 0,
    stderr:
      /^note {2}no browser was started: xdg-open found no browser \(exit code 3\); the address is https:\/\/www\.example\.org\/docs\/\n$/,
  });
  mkdirSync(path.join(cwd, 'empty'));
  const none = publish(url, { PATH: path.join(cwd, 'empty') });
  t.match(none, {
    status: 0,
    stdout: /skip_same=1/,
    stderr: /xdg-open is not installed; the address is https:/,
  });
  const json = publish([...url, '--format', 'json'], { OPEN_CODE: '3' });
  t.match(document(t, json), { kind: 'run' });
  t.equal(json.stderr, '');
});

t.test('serve opens the console, and push opens the published page', async (t) => {
  const token = 'a-token-of-sixteen-or-more';
  const { cwd, env, opened } = layOut(t, {
    'c.yml': `
upload_tokens: [{ id: ci, value_env: TOKEN, pipelines: [site, plain] }]
server: { http: { listen: "127.0.0.1:0" }, staging: { directory: ./staging } }
pipelines:
  - id: site
    source: { backend: http_upload }
    destinations: [{ id: web, backend: local, path: ./web, public_base_url: 'https://www.example.org/' }]
  - id: plain
    source: { backend: http_upload }
    destinations: [{ id: web, backend: local, path: ./plain }]
`,
  });
  const { url } = await startDaemon(t, cwd, { ...env, TOKEN: token }, program, process.execPath, ['--open']);
  let first: string[] = [];
  while ((first = opened()).length === 0) await sleep(20);
  t.same(first, [`${url}console`]);
  const push = (...args: string[]): Ended =>
    waybill(['push', 'site', '--to', url, '--open', ...args], { cwd, env: { ...env, WAYBILL_TOKEN: token } });
  t.match(push('-p', 'site'), { status: 0 });
  t.same(opened(), ['https://www.example.org/site/']);
  t.match(push('-p', 'plain'), {
    status: 0,
    stderr: /nothing to open: no destination has a public_base_url/,
  });
  t.match(push('-p', 'site', '--no-wait'), { status: 2, stderr: /--no-wait ends before that/ });
  t.same(opened(), []);
});

for (const [name, console, pages] of [
  ['serve logs the addresses of the console and the API reference', '', ['console', 'docs']],
  ['without the console, serve logs only the API reference', ', console: { enabled: false }', ['docs']],
] as const)
  t.test(name, async (t) => {
    const cwd = t.testdir({
      'c.yml': `server: { http: { listen: "0.0.0.0:0" }, staging: { directory: ./staging }${console} }`,
    });
    const { port, listening } = await startDaemon(t, cwd, {});
    for (const page of ['console', 'docs'] as const) {
      const address = listening[page];
      const expected = pages.some((each) => each === page) ? `http://localhost:${port}/${page}` : undefined;
      t.equal(address, expected);
      if (address !== undefined) t.equal((await fetch(address)).status, 200, address);
    }
  });
