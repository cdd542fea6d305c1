import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { consoleRoutes } from '../../../src/api/console/console.ts';
import { afterLogin } from '../../../src/api/console/paths.ts';
import { sealOf } from '../../../src/api/console/sealed-cookie.ts';
import { type Session, Sessions } from '../../../src/api/console/sessions.ts';
import { createLoginLimit } from '../../../src/api/http/login-limit.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { inProcessRevokedSessions } from '../../../src/workers/queue/revoked-sessions.ts';
import type { InspectionRequest } from '../../../src/workers/threads/inspection-request.ts';
import { manualClock } from '../../workers/manual-clock.ts';
import { type Api, startApi, tokens } from '../harness.ts';

const session = {
  id: 'one',
  holder: { tokenId: 'ci', fingerprint: 'of-its-value' },
  csrf: 'of-its-forms',
  begunMs: Date.parse('2026-11-20T10:00:00Z'),
  expiresMs: Date.parse('2026-11-20T12:00:00Z'),
};
const expiry = new Date(session.expiresMs);
const before = new Date('2026-11-20T11:00:00Z');

t.test('the secret opens a session until the session expires', async (t) => {
  const sessionSeal = (secret: string) => sealOf<Session>(secret, 'sessions');
  const seal = sessionSeal('a-secret-that-two-hosts-have-together');
  const sealed = await seal.seal(session, expiry);
  t.notMatch(sealed, /of-its-forms|of-its-value/, 'its content is encrypted');
  t.same(await sessionSeal('a-secret-that-two-hosts-have-together').open(sealed, before), session);
  t.equal(await sessionSeal('another-secret').open(sealed, before), null);
  t.equal(await seal.open(sealed, expiry), null);
  const login = sealOf<Session>('a-secret-that-two-hosts-have-together', 'logins');
  t.equal(await login.open(sealed, before), null, 'another purpose');
  for (const text of ['', 'x', `${sealed}x`, sealed.slice(0, -4)])
    t.equal(await seal.open(text, before), null);
});

t.test('a network with too many failed logins is rejected', async (t) => {
  const sleep = async (): Promise<void> => void t.fail('no login is slowed down');
  const limit = createLoginLimit({ sleep }, { perClient: 2, total: 9, windowSeconds: 60, slowdownMs: 5 });
  for (const client of ['2001:db8::1', '2001:db8::2']) {
    await limit.admit(client);
    await limit.failed(client);
  }
  await t.rejects(limit.admit('2001:db8::3'), { code: 'too_many_logins' });
  await limit.admit('2001:db8:1::3');
});

t.test('delays logins after failures of many clients, without a lockout', async (t) => {
  const sleeps: number[] = [];
  const sleep = async (ms: number): Promise<void> => void sleeps.push(ms);
  const limit = createLoginLimit({ sleep }, { perClient: 2, total: 3, windowSeconds: 60, slowdownMs: 5 });
  for (const client of ['192.0.2.1', '192.0.2.2', '192.0.2.3']) {
    await limit.admit(client);
    await limit.failed(client);
  }
  t.same(sleeps, []);
  await limit.admit('192.0.2.4');
  t.same(sleeps, [5], 'another client waits, and is then admitted');
});

t.test('open streams of a process share one query for logouts in each round of checks', async (t) => {
  const clock = manualClock(before);
  const queries: (readonly string[])[] = [];
  const book = inProcessRevokedSessions({ clock });
  const revokedSessions = {
    ...book,
    findRevoked: async (ids: readonly string[]) => {
      queries.push(ids);
      return book.findRevoked(ids);
    },
  };
  const configured = {
    get: () => ({ tokens: [], adminToken: null, login: null, pipelineIds: new Set<string>() }),
  };
  const ports = { http: { basePath: '/' }, clock, configured, identity: { revokedSessions } };
  const sessions = new Sessions(ports, { seal: sealOf('a-secret', 'sessions'), lifetimeMs: 1e6 });
  const ids = Array.from({ length: 300 }, (_, index) => `session-${index}`);
  for (let round = 1; round <= 3; round += 1) {
    for (const id of ids) sessions.refusalOf({ session: { ...session, id } });
    await clock.advance(1_000);
    t.same(queries.length, round);
    t.same(
      queries.at(-1)?.filter((id) => !id.startsWith('holder-')),
      ids,
    );
  }
  await clock.advance(10_000);
  t.equal(queries.length, 3, 'and none without an open stream');
});

t.test('redirects only to the console after a login', (t) => {
  const home = '/waybill/console';
  for (const next of [`${home}/runs?q=x`, `${home}/pipelines/maps`])
    t.equal(afterLogin('/waybill/', next), next);
  const hostile = fc.oneof(
    fc.string(),
    fc.webUrl(),
    fc.constantFrom(
      '//evil.example',
      `${home}\\@evil.example`,
      `${home}@evil.example`,
      '/waybill/consolex',
      'javascript:alert(1)',
    ),
  );
  fc.assert(
    fc.property(hostile, (next) => {
      const to = afterLogin('/waybill/', next);
      return new URL(to, 'http://here.example').origin === 'http://here.example' && to.startsWith(home);
    }),
  );
  t.equal(afterLogin('/waybill/', `${home}x`), home);
  for (const way of ['../../logout', '..//evil.example', '.%2e/x', 'a/%2E%2e/../..', './runs'])
    t.equal(afterLogin('/waybill/', `${home}/${way}`), home, way);
  t.equal(afterLogin('/waybill/', null), home);
  t.end();
});

const formType = { 'content-type': 'application/x-www-form-urlencoded' };

async function post(
  api: Api,
  path: string,
  form: Record<string, string>,
  headers: object = {},
): Promise<Response> {
  return fetch(`${api.origin}/${path}`, {
    method: 'POST',
    redirect: 'manual',
    headers: { ...formType, ...headers },
    body: new URLSearchParams(form),
  });
}

async function logIn(api: Api, token: string): Promise<{ cookie: string; csrf: string; attributes: string }> {
  const response = await post(api, 'console/login', { token });
  const attributes = response.headers.get('set-cookie') ?? '';
  const cookie = attributes.split(';')[0] ?? '';
  const page = await (await fetch(`${api.origin}/console`, { headers: { cookie } })).text();
  return { cookie, attributes, csrf: /name="csrf" value="([^"]+)"/.exec(page)?.[1] ?? '' };
}

t.test('the cookie is unreadable for scripts and other sites, and Secure behind TLS', async (t) => {
  const api = await startApi(t, { http: { trustedProxies: ['loopback'], basePath: '/' } });
  const { attributes } = await logIn(api, tokens.maps);
  t.match(attributes, /HttpOnly/);
  t.match(attributes, /SameSite=Strict/);
  t.match(attributes, /Path=\//);
  t.notMatch(attributes, /Secure/);
  const tls = await post(api, 'console/login', { token: tokens.maps }, { 'x-forwarded-proto': 'https' });
  t.match(tls.headers.get('set-cookie'), /Secure/);
  const wrong = await post(api, 'console/login', { token: 'wrong' });
  t.equal(wrong.status, 401);
  t.equal(wrong.headers.get('set-cookie'), null);
  t.equal((await post(api, 'console/login', { token: tokens.expired })).status, 401);
  t.equal(
    (await post(api, 'console/login', { token: tokens.maps }, { 'sec-fetch-site': 'cross-site' })).status,
    403,
  );
});

t.test('rejects a form of another origin over plain HTTP, and accepts one of its own host', async (t) => {
  const api = await startApi(t, { http: { trustedProxies: ['loopback'], basePath: '/' } });
  const { host } = new URL(api.origin);
  const statusFrom = async (origin: string, headers: Record<string, string> = {}): Promise<number> =>
    (await post(api, 'console/login', { token: tokens.maps }, { origin, ...headers })).status;
  t.equal(await statusFrom(`http://${host}`), 303);
  t.equal(await statusFrom('https://console.example', { 'x-forwarded-host': 'console.example' }), 303);
  for (const origin of ['http://evil.example', 'null', 'nonsense', `http://${host}.evil.example`])
    t.equal(await statusFrom(origin), 403, origin);
});

t.test('too many attempts get 429 and Retry-After, even with the right secret', async (t) => {
  const api = await startApi(t);
  for (let attempt = 0; attempt < 10; attempt++)
    t.equal((await post(api, 'console/login', { token: `wrong-${attempt}` })).status, 401);
  const refused = await post(api, 'console/login', { token: tokens.maps });
  t.equal(refused.status, 429);
  t.ok(Number(refused.headers.get('retry-after')) > 0);
});

t.test('an action without the token of the session does nothing', async (t) => {
  const api = await startApi(t);
  const { cookie, csrf } = await logIn(api, tokens.admin);
  const path = 'console/pipelines/maps/pause';
  t.equal((await post(api, path, { csrf })).status, 401, 'no session was opened');
  t.equal((await post(api, path, {}, { cookie })).status, 403);
  t.equal((await post(api, path, { csrf: 'x'.repeat(csrf.length) }, { cookie })).status, 403);
  t.equal((await post(api, path, { csrf }, { cookie, 'sec-fetch-site': 'cross-site' })).status, 403);
  t.equal((await api.ports.queue.pauses()).size, 0);
  const done = await post(api, path, { csrf, reason: 'for now' }, { cookie });
  t.equal(done.status, 303);
  t.match(await api.ports.queue.pauses(), new Map([['maps', { reason: 'for now' }]]));
  t.equal((await post(api, 'console/pipelines/maps/resume', { csrf }, { cookie })).status, 303);
  t.equal((await api.ports.queue.pauses()).size, 0);
});

t.test('a session ends with its token, and at logout', async (t) => {
  const api = await startApi(t);
  const { cookie, csrf } = await logIn(api, tokens.maps);
  const status = async (): Promise<number> =>
    (await fetch(`${api.origin}/console`, { headers: { cookie }, redirect: 'manual' })).status;
  t.equal(await status(), 200);
  const [token] = api.ports.configured.get().tokens;
  if (token === undefined) throw new TypeError('there are tokens');
  const { hash } = token;
  api.reconfigure((access) => ({ ...access, tokens: access.tokens.filter(({ id }) => id !== 'ci') }));
  t.equal(await status(), 303, 'the token is removed');
  api.reconfigure((access) => ({ ...access, tokens: [{ ...token, hash: Buffer.alloc(32, 7) }] }));
  t.equal(await status(), 303, 'another value');
  api.reconfigure((access) => ({ ...access, tokens: [{ ...token, hash, expiresAt: new Date(0) }] }));
  t.equal(await status(), 303, 'expired');
  api.reconfigure((access) => ({ ...access, tokens: [token] }));
  t.equal(await status(), 200);
  t.equal((await post(api, 'console/logout', { csrf }, { cookie })).status, 303);
  t.equal(await status(), 303, 'a copied cookie is not accepted');
});

t.test(
  'a logout ends the session on other hosts and after a restart, and closes its open pages',
  async (t) => {
    const revokedSessions = inProcessRevokedSessions({ clock: systemClock });
    const [one, other] = await Promise.all(
      [1, 2].map(() => startApi(t, { ports: { identity: { revokedSessions } } })),
    );
    if (one === undefined || other === undefined) throw new TypeError('there are two');
    const { cookie, csrf } = await logIn(one, tokens.maps);
    const page = await fetch(`${other.origin}/console/events`, { headers: { cookie } });
    t.equal(page.status, 200);
    t.equal((await post(one, 'console/logout', { csrf }, { cookie })).status, 303);
    for (const api of [one, other, await startApi(t, { ports: { identity: { revokedSessions } } })])
      t.equal(
        (await fetch(`${api.origin}/console`, { headers: { cookie }, redirect: 'manual' })).status,
        303,
      );
    t.match(await page.text(), /event: end\n[^]*"reason":"token_revoked"/);
  },
);

t.test(
  'a clock that was ahead neither extends a session nor blocks later ones after a global logout',
  async (t) => {
    let aheadMs = 365 * 86_400_000;
    const clock = {
      ...systemClock,
      now: () => new Date(Date.now() + aheadMs),
      // Without timers, only a new session checks for logouts.
      timeout: () => ({ cancel: () => undefined }),
    };
    const api = await startApi(t, {
      ports: { clock, identity: { revokedSessions: inProcessRevokedSessions({ clock }) } },
    });
    const statusOf = async (cookie: string): Promise<number> =>
      (await fetch(`${api.origin}/console`, { headers: { cookie }, redirect: 'manual' })).status;
    const kept = await logIn(api, tokens.maps);
    const ended = await logIn(api, tokens.maps);
    t.equal(await statusOf(kept.cookie), 200);
    t.equal(
      (await post(api, 'console/logout', { csrf: ended.csrf, everywhere: 'yes' }, { cookie: ended.cookie }))
        .status,
      303,
    );
    const admin = await logIn(api, tokens.admin);
    aheadMs = 0;
    t.equal(await statusOf(admin.cookie), 303, 'its start is in the future');
    // The first request of the session detects that the logout is in the future, and treats it as current.
    t.equal(await statusOf((await logIn(api, tokens.maps)).cookie), 303);
    t.equal(await statusOf((await logIn(api, tokens.maps)).cookie), 200);
  },
);

t.test(
  'a logout that cannot be stored is 503, and no cookie is accepted while logouts are unknown',
  async (t) => {
    const away = async (): Promise<never> => {
      throw new WaybillError('queue_unavailable', 'unreachable in this test');
    };
    const revokedSessions = { add: away, addOnce: away, findRevoked: async () => new Map<string, Date>() };
    const api = await startApi(t, { ports: { identity: { revokedSessions } } });
    const { cookie, csrf } = await logIn(api, tokens.maps);
    t.equal((await post(api, 'console/logout', { csrf }, { cookie })).status, 503);
    Object.assign(revokedSessions, { findRevoked: away });
    t.equal((await fetch(`${api.origin}/console`, { headers: { cookie }, redirect: 'manual' })).status, 503);
  },
);

t.test('a token sees only its pipelines, on every page, in every action and in the events', async (t) => {
  const api = await startApi(t);
  const foreign = await api.ports.queue.reserve({ pipelineId: 'docs' });
  const runId = 'docs.20261120T020434Z.k3f9q2ab7x';
  await foreign.accept({ runId, pipelineId: 'docs', staged: null }, 'sha256:00' as never);
  const { cookie, csrf } = await logIn(api, tokens.maps);
  const get = (path: string): Promise<Response> =>
    fetch(`${api.origin}/${path}`, { headers: { cookie, accept: 'text/html' }, redirect: 'manual' });
  for (const path of ['console', 'console/runs', 'console/runs?q=docs']) {
    const text = await (await get(path)).text();
    t.match(text, />maps</, path);
    t.notMatch(text, /docs\.2026|>files<|>docs</, path);
    t.notMatch(text, /1 waiting/, `${path}: waiting runs of others are not counted`);
  }
  // Every address with a pipeline or a run, including those of other pipelines, and the admin addresses.
  const filled = (path: string): string =>
    path
      .slice(1)
      .replace('{pipeline_id}', /plan|start/.test(path) ? 'files' : 'docs')
      .replace('{destination_id}', 'web')
      .replace('{release_id}', 'x')
      .replace('{notifier_id}', 'hook')
      .replace('{run_id}', runId);
  const guarded = consoleRoutes.filter(({ path }) => /\{|^\/console\/admin/.test(path));
  t.ok(guarded.length > 15, `${guarded.length} addresses`);
  for (const { method, path } of guarded) {
    const form = { csrf, verb: 'promote' };
    const answer =
      method === 'get'
        ? await get(filled(path))
        : path.endsWith('/upload')
          ? await uploadTo(api, filled(path), { cookie, csrf })
          : await post(api, filled(path), form, { cookie });
    t.equal(answer.status, 403, `${method} ${filled(path)}`);
  }
  for (const path of ['console/runs?pipeline=docs', 'console/events?pipeline=docs'])
    t.equal((await get(path)).status, 403, path);
  const paused = await post(api, 'console/pipelines/maps/pause', { csrf }, { cookie });
  t.equal(paused.status, 303, 'a token with the scope cancel pauses its own pipeline');
  const leave = new AbortController();
  const events = await fetch(`${api.origin}/console/events`, { headers: { cookie }, signal: leave.signal });
  const reader = (events.body as ReadableStream<Uint8Array>).getReader();
  const first = Buffer.from((await reader.read()).value ?? []).toString();
  t.match(first, /event: snapshot/);
  t.notMatch(first, /docs\./);
  await api.ports.queue.cancel(runId);
  const own = await api.ports.queue.reserve({ pipelineId: 'maps' });
  await own.accept({ runId: 'maps.1', pipelineId: 'maps', staged: null }, 'sha256:00' as never);
  const next = Buffer.from((await reader.read()).value ?? []).toString();
  t.match(next, /maps\.1/);
  t.notMatch(next, /docs\./);
  leave.abort();
  const admin = await logIn(api, tokens.admin);
  const all = await fetch(`${api.origin}/console`, { headers: { cookie: admin.cookie } });
  t.match(await all.text(), /0 running, 1 waiting, 0 being received/);
  await sleep(0);
});

async function uploadTo(
  api: Api,
  path: string,
  { cookie, csrf }: { cookie: string; csrf: string },
): Promise<Response> {
  const body = new FormData();
  body.append('csrf', csrf);
  body.append('bundle', new Blob(['x']), 'bundle.tar');
  return fetch(`${api.origin}/${path}`, { method: 'POST', headers: { cookie }, body });
}

t.test('a path that leads out of the destination is rejected wherever the console accepts one', async (t) => {
  const asked: InspectionRequest[] = [];
  const api = await startApi(t, {
    ports: {
      threads: {
        inspect: async (request) => {
          asked.push(request);
          return { kind: 'catalog', paths: [], pathsOmitted: 0, catalog: null };
        },
      },
    },
  });
  const { cookie, csrf } = await logIn(api, tokens.maps);
  const place = 'console/pipelines/maps/destinations/web';
  for (const path of ['../etc', '..', 'a/../../b', '/etc', 'a\\b', 'a/./b', 'a/..', 'a//b', 'a/\u0000', ''])
    for (const [page, send] of [
      ...['', '/open', '/releases'].map((page): [string, () => Promise<Response>] => [
        page,
        () =>
          fetch(`${api.origin}/${place}${page}?${new URLSearchParams({ path }).toString()}`, {
            headers: { cookie },
          }),
      ]),
      ...['/verify', '/releases/x/activate'].map((page): [string, () => Promise<Response>] => [
        page,
        () => post(api, `${place}${page}`, { csrf, path, verb: 'promote' }, { cookie }),
      ]),
    ])
      t.equal((await send()).status, 400, `${page} ${JSON.stringify(path)}`);
  t.same(asked, [], 'nothing was read');
  // If it is encoded twice, it is an ordinary name. As part of the address, it does not match a
  // destination.
  await fetch(`${api.origin}/${place}?path=%252e%252e%252fetc`, { headers: { cookie } });
  t.match(asked, [{ path: '%2e%2e%2fetc' }]);
  for (const other of ['%2e%2e', '..%2f..%2fetc', '%2fetc', 'web%00'])
    t.equal(
      (await fetch(`${api.origin}/console/pipelines/maps/destinations/${other}`, { headers: { cookie } }))
        .status,
      404,
      other,
    );
});

t.test('without the setting there is no console', async (t) => {
  const api = await startApi(t, { console: null });
  t.equal((await fetch(`${api.origin}/console`)).status, 404);
  t.equal((await fetch(`${api.origin}/console/login`)).status, 404);
});
