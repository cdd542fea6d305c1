import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import http2 from 'node:http2';
import path from 'node:path';
import t from 'tap';
import { startCaddy } from '../services/caddy.ts';
import { ensureInstalled } from '../services/debian.ts';
import { acceptedId, bundle, follow, launchApi, layOut, type LogLine, token, upload } from './processes.ts';

/** The built daemon below a path of a site behind caddy. */

const settings = { http: 'base_path: /waybill/, trusted_proxies: [loopback]' };
const site = (port: string): string => `	reverse_proxy /waybill/* 127.0.0.1:${port}\n	respond / "the site"`;

t.test('an upload through the proxy, and all links of its answer', async (t) => {
  const place = layOut(t, settings);
  const daemon = await launchApi(t, place, ['serve']);
  const origin = await startCaddy(t, site(new URL(daemon.url).port));
  const url = `${origin}/waybill/`;
  const response = await upload(url, 'p1', bundle('session-1', 8 << 20));
  const location = response.headers.get('location') ?? '';
  t.match(location, /^\/waybill\/runs\/p1\./);
  const id = await acceptedId(response);
  t.equal((await follow(url, id)).status, 'succeeded');
  t.equal((await fetch(origin + location)).status, 200, 'Location leads back through the proxy');
  t.equal(readFileSync(path.join(place.root, 'public/p1/session-1/name.txt'), 'utf8'), 'session-1');
  for (const page of ['healthz', 'docs', 'openapi.json', 'metrics'])
    t.equal((await fetch(url + page)).status, 200, page);
  t.equal(await (await fetch(origin)).text(), 'the site', 'paths next to it belong to other servers');
});

t.test('a refusal arrives unchanged while the client is still sending', async (t) => {
  const daemon = await launchApi(t, layOut(t, settings), ['serve']);
  const origin = await startCaddy(t, site(new URL(daemon.url).port));
  const body = bundle('session-1', 8 << 20);
  const cases: [string, Record<string, string>, number, string][] = [
    ['p1', { authorization: 'Bearer guess' }, 401, 'unauthorized'],
    ['none', {}, 404, 'pipeline_not_found'],
    ['p1', { 'content-type': 'application/zip' }, 415, 'unsupported_media_type'],
    ['p1', { 'content-encoding': 'gzip' }, 415, 'unsupported_media_type'],
  ];
  for (const [pipeline, headers, status, code] of cases) {
    const response = await upload(`${origin}/waybill/`, pipeline, body, headers);
    t.equal(response.status, status, code);
    t.equal(response.headers.get('content-type'), 'application/problem+json');
    t.match(await response.json(), { code });
  }
  const garbage = await upload(`${origin}/waybill/`, 'p1', Buffer.alloc(8 << 20, 'x'));
  t.match(
    await garbage.json(),
    { code: 'malformed_archive', status: 400 },
    'also from the middle of the body',
  );
});

t.test('a client may use HTTP/2 to the proxy', async (t) => {
  const place = layOut(t, settings);
  const daemon = await launchApi(t, place, ['serve']);
  const origin = await startCaddy(t, site(new URL(daemon.url).port));
  const session = http2.connect(origin);
  t.teardown(() => session.destroy());
  const body = bundle('session-2', 2 << 20);
  const post = async (bearer: string): Promise<{ status: number | undefined; text: string }> => {
    const stream = session.request({
      ':method': 'POST',
      ':path': '/waybill/v1/pipelines/p1/upload',
      authorization: `Bearer ${bearer}`,
      'content-type': 'application/x-tar',
    });
    stream.on('error', () => undefined).end(body);
    const [headers] = (await once(stream, 'response')) as [
      http2.IncomingHttpHeaders & { ':status'?: number },
    ];
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    await once(stream, 'end');
    return { status: headers[':status'], text: Buffer.concat(chunks).toString() };
  };
  t.match(await post(token), { status: 202, text: /"status":"accepted"/ });
  t.match(await post('guess'), { status: 401, text: /"code":"unauthorized"/ });
  t.match(await post(token), { status: 202 }, 'the connection stays open');
});

t.test('curl can wait for 100 Continue', async (t) => {
  await ensureInstalled('curl');
  const place = layOut(t, settings);
  const daemon = await launchApi(t, place, ['serve']);
  const origin = await startCaddy(t, site(new URL(daemon.url).port));
  const archive = path.join(place.root, 'bundle.tar');
  writeFileSync(archive, bundle('session-2', 2 << 20));
  const curl = (bearer: string): string =>
    execFileSync(
      'curl',
      [
        ...['-sS', '--http1.1', '-w', '\n%{http_code}', '-X', 'POST', '--data-binary', `@${archive}`],
        ...[
          '-H',
          'Content-Type: application/x-tar',
          '-H',
          'Expect: 100-continue',
          '-H',
          `Authorization: Bearer ${bearer}`,
        ],
        `${origin}/waybill/v1/pipelines/p1/upload`,
      ],
      { encoding: 'utf8' },
    );
  t.match(curl(token), /"status":"accepted".*\n202$/s);
  t.match(curl('guess'), /"code":"unauthorized".*\n401$/s);
});

t.test('the client in the log is the one from the trusted proxy, whatever the client claims', async (t) => {
  const daemon = await launchApi(t, layOut(t, settings), ['serve']);
  const origin = await startCaddy(t, site(new URL(daemon.url).port));
  const isAsked = (line: LogLine): boolean => 'route' in line && line.route === '/openapi.json';
  const spoofed = { 'x-forwarded-for': '203.0.113.9' };
  await (await fetch(`${origin}/waybill/openapi.json`, { headers: spoofed })).text();
  t.match(await daemon.until(isAsked), { client: '127.0.0.1' });

  const wary = await launchApi(t, layOut(t, { http: 'base_path: /waybill/, trusted_proxies: []' }), [
    'serve',
  ]);
  await (await fetch(`${wary.url}openapi.json`, { headers: spoofed })).text();
  t.match(await wary.until(isAsked), { client: '127.0.0.1' }, 'with an empty list, no proxy is trusted');
});

t.test('a daemon that stops behind the proxy finishes its runs, and the proxy answers 502', async (t) => {
  const place = layOut(t, settings);
  const daemon = await launchApi(t, place, ['serve']);
  const origin = await startCaddy(t, site(new URL(daemon.url).port));
  await acceptedId(await upload(`${origin}/waybill/`, 'p1', bundle('last', 8 << 20)));
  t.equal(await daemon.kill('SIGTERM'), 0);
  t.ok(existsSync(path.join(place.root, 'public/p1/last/name.txt')));
  t.equal((await fetch(`${origin}/waybill/healthz`)).status, 502);
});
