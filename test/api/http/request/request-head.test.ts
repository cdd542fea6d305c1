import t, { type Test } from 'tap';
import { isAllowedHost } from '../../../../src/api/http/request/request-head.ts';
import { connect, startApi, tokens } from '../../harness.ts';

/** Pages of other sites cannot use the browser of a logged-in user. */

t.test('accepts a host that is listed, is an address, or belongs to the loopback interface', (t) => {
  const allowed = ['Publish.example.org'];
  for (const host of ['publish.example.org', 'PUBLISH.EXAMPLE.ORG:8080', 'publish.example.org.'])
    t.ok(isAllowedHost(host, allowed), host);
  for (const host of ['127.0.0.1:8080', '10.0.0.7', '[::1]:8080', 'localhost:8080', 'a.localhost'])
    t.ok(isAllowedHost(host, allowed), host);
  for (const host of ['evil.example', 'publish.example.org.evil.example', 'localhost.evil.example'])
    t.notOk(isAllowedHost(host, allowed), host);
  for (const host of ['', 'evil.example:80@127.0.0.1', '127.0.0.1.evil.example', '[::1', 'a b'])
    t.notOk(isAllowedHost(host, allowed), host);
  t.end();
});

t.test('with allowed_hosts any other host is 421, whatever the path', async (t) => {
  const { origin } = await startApi(t, { http: { allowedHosts: ['publish.example.org'] } });
  const statusFor = async (host: string, path: string): Promise<string> => {
    const { socket, until } = await connect(t, origin);
    socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    const answer = await until(/\r\n\r\n/);
    socket.destroy();
    return /^HTTP\/1.1 (\d+)/.exec(answer)?.[1] ?? '';
  };
  for (const path of ['/livez', '/metrics', '/observations', '/console/login', '/assets/none', '/none'])
    t.equal(await statusFor('rebound.evil.example', path), '421', path);
  for (const host of ['publish.example.org', 'localhost', '127.0.0.1:8080'])
    t.equal(await statusFor(host, '/livez'), '200', host);
});

/** Sends a head, and returns the whole answer. */
async function answerTo(t: Test, origin: string, head: string): Promise<string> {
  const { socket, closed } = await connect(t, origin);
  socket.write(`${head}\r\nConnection: close\r\n\r\n`);
  return closed;
}

t.test('an absolute target is routed by its path, and its host replaces the Host header', async (t) => {
  const { origin } = await startApi(t, { http: { allowedHosts: ['publish.example.org'] } });
  const get = (target: string, host = 'x'): Promise<string> =>
    answerTo(t, origin, `GET ${target} HTTP/1.1\r\nHost: ${host}`);
  t.match(await get('http://publish.example.org/livez'), /^HTTP\/1.1 200 [^]*"status":"ok"/);
  t.match(await get('http://user:secret@publish.example.org:80/console/login'), /^HTTP\/1.1 200 /);
  t.match(await get('http://publish.example.org/v1/runs?zz=1'), /^HTTP\/1.1 401 /);
  t.match(await get('http://publish.example.org?x'), /^HTTP\/1.1 404 [^]*"code":"not_found"/);
  t.match(await get('http://evil.example/livez', 'publish.example.org'), /^HTTP\/1.1 421 /);
});

for (const target of ['http://[/livez', 'http://[::1/console/login', 'http://a:99999/console/login'])
  t.test(`the invalid target ${target} gets a problem document, and is logged`, async (t) => {
    const { origin, lines } = await startApi(t);
    const answer = await answerTo(t, origin, `GET ${target} HTTP/1.1\r\nHost: x`);
    t.match(answer, /^HTTP\/1.1 400 [^]*\r\nX-Request-Id: [^]*"code":"malformed_request"/);
    t.match(lines, [{ fields: { status: 400, code: 'malformed_request' } }]);
  });

t.test('a client of HTTP/1.0 gets no 100 Continue', async (t) => {
  const { origin } = await startApi(t);
  const heads = {
    upload: `POST /v1/pipelines/maps/upload HTTP/1.0\r\nContent-Type: application/x-tar`,
    document: `POST /v1/scene-maps/validate HTTP/1.0\r\nContent-Type: application/json`,
  };
  for (const [name, head] of Object.entries(heads)) {
    const { socket, closed } = await connect(t, origin);
    const fields = `Authorization: Bearer ${tokens.maps}\r\nExpect: 100-continue\r\nContent-Length: 2`;
    socket.write(`${head}\r\n${fields}\r\n\r\n{}`);
    t.match(await closed, /^HTTP\/1.1 20[02] /, name);
  }
});

t.test('an error whose page cannot be rendered is JSON without a stack, and is logged', async (t) => {
  const problemPage = (): never => {
    throw new Error('ENOENT: /srv/waybill/templates/pages/shell.ejs');
  };
  const { origin, lines } = await startApi(t, { ports: { problemPage } });
  const response = await fetch(`${origin}/none`, { headers: { accept: 'text/html' } });
  t.equal(response.status, 404);
  const text = await response.text();
  t.match(JSON.parse(text), { code: 'not_found', status: 404 });
  t.notMatch(text, /srv|at /);
  t.match(lines, [{ level: 'error', fields: { status: 404, code: 'not_found' } }]);
});

t.test(
  'no other site can embed an answer, and pages may use no browser feature that they do not need',
  async (t) => {
    const { origin } = await startApi(t);
    for (const path of ['/livez', '/openapi.json', '/docs', '/console/login', '/none'])
      t.equal((await fetch(origin + path)).headers.get('cross-origin-resource-policy'), 'same-origin', path);
    for (const path of ['/docs', '/console/login'])
      t.match((await fetch(origin + path)).headers.get('permissions-policy'), /camera=\(\)/, path);
  },
);

for (const [basePath, prefix] of [
  ['/', '__Host-'],
  ['/waybill/', '__Secure-'],
] as const)
  t.test(`over TLS the session cookie below ${basePath} has the prefix ${prefix}`, async (t) => {
    const { origin } = await startApi(t, { http: { trustedProxies: ['loopback'], basePath } });
    const tls = { 'x-forwarded-proto': 'https' };
    const body = new URLSearchParams({ token: tokens.maps });
    const init: RequestInit = { method: 'POST', headers: tls, body, redirect: 'manual' };
    const login = await fetch(`${origin}${basePath}console/login`, init);
    const set = login.headers.get('set-cookie') ?? '';
    const cookie = set.split(';', 1)[0] ?? '';
    t.ok(cookie.startsWith(`${prefix}waybill_session=`));
    t.ok(set.includes('; Secure') && set.includes(`; Path=${basePath}`));
    const visit = async (sent: string): Promise<number> => {
      const headers = { ...tls, cookie: sent };
      return (await fetch(`${origin}${basePath}console`, { headers, redirect: 'manual' })).status;
    };
    t.equal(await visit(cookie), 200);
    t.equal(await visit(cookie.slice(prefix.length)), 303, 'a cookie that plain HTTP could have set');
  });
