import t from 'tap';
import { consoleRoutes } from '../../src/api/console/console.ts';
import { daemonRoutes } from '../../src/cli/daemon/daemon-app.ts';
import { weatherRoutes } from '../../src/weather/api/weather-routes.ts';
import { readerThat } from '../weather/api/weather-reader-stub.ts';
import { type Api, startApi, tokens, upload } from './harness.ts';

/** A shared cache in front of the daemon never stores a response that depends on a token or a session. */

/** Pages that are not in the lists of routes. `test/pages/weather-pages.test.ts` covers the weather pages. */
const pages = ['/', '/assets/ASSET', '/none'];
/** Paths with responses that a cache may store. A history is rejected here, because it requires a station. */
const cacheable = [
  ...['/', '/assets/ASSET', '/docs', '/openapi.json', '/v1/schemas/scene-map.json'],
  ...weatherRoutes.map(({ path }) => path).filter((path) => path !== '/observations/history'),
];

interface Answer {
  status: number;
  headers: Headers;
  body: string;
}

t.test('only responses that are the same for all clients may be stored by a cache', async (t) => {
  const api = await startApi(t, {
    http: { protectRuns: true },
    metricsToken: tokens.metrics,
    reader: readerThat(() => Promise.resolve({ data: { a: 1 }, lastModified: null })),
  });
  const values = await valuesOf(api);
  const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });
  const cookie = await sessionOf(api, tokens.admin);
  const callers: Record<string, Record<string, string>> = {
    ...{ nobody: {}, admin: bearer(tokens.admin), producer: bearer(tokens.maps) },
    ...{ metrics: bearer(tokens.metrics), session: { cookie } },
  };
  const routes = [...daemonRoutes, ...consoleRoutes].filter(({ method }) => method === 'get');
  const paths = [...new Set([...routes.map(({ path }) => path), ...pages])];
  const stored = new Set<string>();
  for (const path of paths) {
    const url = path.replaceAll(
      /\{(\w+)\}|ASSET/g,
      (_all, name: string | undefined) => values[name ?? 'asset'] ?? 'none',
    );
    for (const accept of ['text/html', 'application/json']) {
      const open = await get(api, url, { accept });
      for (const [caller, credentials] of Object.entries(callers)) {
        const name = `${path} for ${caller} as ${accept}`;
        const { status, headers, body } = await get(api, url, { accept, ...credentials });
        if (/no-store|private/.test(headers.get('cache-control') ?? '')) continue;
        stored.add(path);
        t.same([status, body], [open.status, open.body], `${name} is the same for all`);
        t.equal(headers.get('set-cookie'), null, `${name} sets no cookie`);
        t.equal(headers.get('vary'), open.headers.get('vary'), name);
        t.match(headers.get('vary'), /Accept-Encoding/, name);
      }
    }
  }
  t.ok(paths.length - stored.size > 25, `${paths.length - stored.size} paths are never stored`);
  t.same([...stored].sort(), cacheable.sort());
});

t.test('caches may not store a refusal or an answer to a change', async (t) => {
  const api = await startApi(t);
  for (const { method, path } of [...daemonRoutes, ...consoleRoutes]) {
    if (method === 'get') continue;
    const response = await fetch(`${api.origin}${path.replaceAll(/\{\w+\}/g, 'none')}`, {
      method: method.toUpperCase(),
      redirect: 'manual',
    });
    await response.body?.cancel();
    t.equal(response.headers.get('cache-control'), 'no-store', `${method} ${path}`);
  }
});

/** Parameters of paths that lead to responses with content. */
async function valuesOf({ origin }: Api): Promise<Record<string, string>> {
  const { run_id: run } = (await (await upload(origin)).json()) as { run_id: string };
  const page = await (await fetch(`${origin}/docs`)).text();
  const asset = /assets\/([^"]+)"/.exec(page)?.[1] ?? '';
  return { asset, run_id: run, pipeline_id: 'maps', destination_id: 'web', notifier_id: 'hook' };
}

async function sessionOf({ origin }: Api, token: string): Promise<string> {
  const body = new URLSearchParams({ token });
  const login = await fetch(`${origin}/console/login`, { method: 'POST', body, redirect: 'manual' });
  return (login.headers.get('set-cookie') ?? '').split(';', 1)[0] ?? '';
}

/** Streams have no end, so the test reads only their headers. */
async function get({ origin }: Api, url: string, headers: Record<string, string>): Promise<Answer> {
  const response = await fetch(origin + url, { headers, redirect: 'manual' });
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  const body = isStream ? '' : await response.text();
  if (isStream) await response.body?.cancel();
  return { status: response.status, headers: response.headers, body };
}
