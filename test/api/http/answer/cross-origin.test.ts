import t from 'tap';
import { daemonRoutes as routes } from '../../../../src/cli/daemon/daemon-app.ts';
import { startWeather } from '../../../weather/api/weather-harness.ts';
import { readerThat } from '../../../weather/api/weather-reader-stub.ts';
import { clockAt } from '../../../weather/suite.ts';
import { startApi, tokens, upload } from '../../harness.ts';

const page = 'https://maps.example.org';
const reader = readerThat(() => Promise.resolve({ data: { a: 1 }, lastModified: null }));
const exposed = 'ETag,Idempotency-Replayed,Link,Location,Retry-After,Warning,WWW-Authenticate,X-Request-Id';

/** The headers that a browser checks in a response to a page of `origin`. */
async function asked(
  url: string,
  { origin, ...init }: { origin: string | null; method?: string; headers?: Record<string, string> },
): Promise<{ status: number; allowed: string | null; headers: Headers }> {
  const headers = { ...init.headers, ...(origin === null ? {} : { origin }) };
  const response = await fetch(url, { ...init, headers });
  await response.text();
  const allowed = response.headers.get('access-control-allow-origin');
  return { status: response.status, allowed, headers: response.headers };
}

const preflight = {
  method: 'OPTIONS',
  headers: { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' },
};

t.test('pages of other origins can read nothing unless they are configured', async (t) => {
  const { origin: api } = await startApi(t, { reader });
  for (const path of ['/alerts', '/runs/none', '/healthz']) {
    const { allowed, headers } = await asked(api + path, { origin: page });
    t.equal(allowed, null, path);
    t.notMatch(headers.get('vary'), /origin/i);
  }
  const { status, headers } = await asked(`${api}/alerts`, { origin: page, ...preflight });
  t.equal(status, 405);
  t.equal(headers.get('access-control-allow-methods'), null);
});

t.test('a configured page can read every answer, whatever its status', async (t) => {
  const { origin: api } = await startApi(t, { reader, http: { cors: { origins: ['https://x.org', page] } } });
  const { headers } = await asked(`${api}/alerts`, { origin: page });
  const again = { 'if-none-match': headers.get('etag') ?? '' };
  const answers: [string, number, RequestInit & { headers?: Record<string, string> }][] = [
    ['/alerts', 200, {}],
    ['/alerts', 200, { method: 'HEAD' }],
    ['/alerts', 304, { headers: again }],
    ['/alerts?colour=red', 400, {}],
    ['/alerts?format=pdf', 406, {}],
    ['/alerts', 405, { method: 'DELETE' }],
    ['/alerts', 405, { method: 'OPTIONS' }],
    ['/none', 404, {}],
    ['/%', 404, {}],
    ['/v1/pipelines/maps/runs', 401, {}],
    ['/openapi.json', 200, {}],
  ];
  for (const [path, status, init] of answers) {
    const named = await asked(api + path, { origin: page, ...(init as object) });
    const isMethod = init.method === 'OPTIONS';
    t.same([named.status, named.allowed], [status, isMethod ? null : page], `${status} ${path}`);
    if (isMethod) continue;
    t.match(named.headers.get('vary'), /\bOrigin\b/);
    const names = named.headers.get('access-control-expose-headers')?.split(',') ?? [];
    for (const name of exposed.split(',')) t.ok(names.includes(name), name);
    t.equal(named.headers.get('access-control-allow-credentials'), null);
    for (const origin of ['https://maps.example.org.evil.net', 'http://maps.example.org', 'null', null]) {
      const other = await asked(api + path, { origin, ...(init as object) });
      t.same([other.status, other.allowed], [status, null], `${origin} reads nothing of ${path}`);
      t.match(other.headers.get('vary'), /\bOrigin\b/, 'no cache mistakes one for the other');
    }
  }
});

/** The response headers that the routes declare. */
function headerParameters(): string[] {
  const parameters = routes.flatMap(({ parameters: declared = [] }) => declared);
  return parameters.filter((parameter) => parameter.in === 'header').map(({ name }) => name);
}

t.test('a preflight lists what is allowed, and is answered without a token on any path', async (t) => {
  const { origin: api, lines } = await startApi(t, { http: { cors: { origins: [page] } } });
  for (const path of ['/v1/pipelines/maps/upload', '/alerts', '/none']) {
    const { status, allowed, headers } = await asked(api + path, { origin: page, ...preflight });
    t.same([status, allowed, headers.get('content-length')], [204, page, '0'], path);
    t.equal(headers.get('access-control-allow-methods'), 'GET,HEAD,POST,PATCH,DELETE');
    const allowedHeaders = headers.get('access-control-allow-headers')?.split(',') ?? [];
    for (const name of [...headerParameters(), 'Authorization', 'Content-Type', 'Traceparent', 'Tracestate'])
      t.ok(allowedHeaders.includes(name), name);
    t.equal(headers.get('access-control-max-age'), '600');
    t.equal(headers.get('access-control-allow-credentials'), null);
    t.match(headers.get('x-request-id'), /^[0-9a-f-]{36}$/);
  }
  while (lines.filter(({ message }) => message === 'request').length < 3)
    await new Promise((resolve) => setImmediate(resolve));
  t.match(lines[0], { fields: { method: 'OPTIONS', status: 204 } }, 'and is logged');
  const stranger = await asked(`${api}/alerts`, { origin: 'https://x.org', ...preflight });
  t.same([stranger.status, stranger.allowed], [204, null]);
});

t.test('a page uploads with a token, and gets the location of its run', async (t) => {
  const { origin: api } = await startApi(t, { http: { cors: { origins: [page] } } });
  const response = await upload(api, { headers: { origin: page } });
  t.equal(response.status, 202);
  t.equal(response.headers.get('access-control-allow-origin'), page);
  const { status, allowed } = await asked(api + (response.headers.get('location') ?? ''), {
    origin: page,
    headers: { authorization: `Bearer ${tokens.maps}` },
  });
  t.same([status, allowed], [200, page]);
});

t.test('"*" lets every page read with the same header, and still allows no credentials', async (t) => {
  const { origin: api } = await startApi(t, { reader, http: { cors: { origins: [page, '*'] } } });
  for (const origin of [page, 'https://x.org', 'null', null]) {
    const { allowed, headers } = await asked(`${api}/alerts`, { origin });
    t.equal(allowed, '*');
    t.equal(headers.get('access-control-allow-credentials'), null);
    t.notMatch(headers.get('vary'), /origin/i);
  }
});

t.test('the reader alone does the same, also for cached answers', async (t) => {
  const clock = clockAt('2026-01-20T18:10:00Z');
  const cors = { origins: [page] };
  const url = await startWeather(t, { reader, clock, cacheMs: 60_000, cors });
  const read = async (origin: string): Promise<Record<string, string>> => {
    const { headers } = await asked(`${url}/observations`, { origin });
    const { date, 'x-request-id': id, ...rest } = Object.fromEntries(headers);
    t.ok(date !== undefined && id !== undefined);
    return rest;
  };
  const first = await read(page);
  t.equal(first['access-control-allow-origin'], page);
  t.match(first['access-control-expose-headers'], 'ETag');
  t.same(await read(page), first, 'from the cache');
  const other = await read('https://x.org');
  t.equal(other['access-control-allow-origin'], undefined);
  t.equal(other['vary'], first['vary']);
});
