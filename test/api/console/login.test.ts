import type { IncomingMessage, ServerResponse } from 'node:http';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { inProcessRevokedSessions } from '../../../src/workers/queue/revoked-sessions.ts';
import { startIssuer } from '../../services/issuer.ts';
import { type OidcProvider, startOidcProvider } from '../../services/oidc-provider.ts';
import { type Api, type ApiSettings, startApi } from '../harness.ts';
import { csrfIn, HttpBrowser, loginWith, noticeIn } from './login.ts';

/* Login to the console with OpenID Connect: oidc-provider, and a scripted provider for faults. */

async function startConsole(
  t: Test,
  { secret, ...settings }: ApiSettings & { secret?: string } = {},
): Promise<{ api: Api; provider: OidcProvider }> {
  const api = await startApi(t, settings);
  const redirectUris = [`${api.origin}/console/login/callback`];
  const provider = await startOidcProvider(t, 'RS256', {
    redirectUris,
    ...(secret === undefined ? {} : { secret }),
  });
  provider.user = { id: 'ada', claims: { groups: ['publishers', 'others'] } };
  const login = loginWith(provider, `${api.origin}/`, { secret: secret ?? null });
  api.reconfigure((access) => ({ ...access, login }));
  return { api, provider };
}

for (const secret of [undefined, 'a:secret & more'])
  t.test(`a user logs in with ${secret === undefined ? 'a public' : 'a confidential'} client`, async (t) => {
    const { api, provider } = await startConsole(t, secret === undefined ? {} : { secret });
    const browser = new HttpBrowser();
    const start = await browser.get(`${api.origin}/console/pipelines/maps`);
    const page = await start.page.text();
    t.match(page, new RegExp(`Log in with ${new URL(provider.issuer).host}<`));
    t.match(page, /<label for="token">/, 'a token still works');
    const href = /href="([^"]+login\/start[^"]+)"/.exec(page)?.[1]?.replaceAll('&amp;', '&') ?? '';
    const end = await browser.get(href);
    t.equal(end.url, `${api.origin}/console/pipelines/maps`, 'the requested page');
    t.match(await end.page.text(), /ada \(operator\)/);
    t.same([...browser.cookies.keys()].includes('waybill_login'), false, 'the attempt cannot be used again');
  });

t.test('the address to return to does not depend on the request', async (t) => {
  const { api, provider } = await startConsole(t);
  const login = loginWith(provider, 'https://publish.example.org/waybill/');
  api.reconfigure((access) => ({ ...access, login }));
  const response = await fetch(`${api.origin}/console/login/start`, {
    redirect: 'manual',
    headers: { 'x-forwarded-host': 'evil.example' },
  });
  const address = new URL(response.headers.get('location') ?? '');
  t.equal(address.origin, provider.issuer);
  t.equal(
    address.searchParams.get('redirect_uri'),
    'https://publish.example.org/waybill/console/login/callback',
  );
  t.match(Object.fromEntries(address.searchParams), {
    code_challenge_method: 'S256',
    response_type: 'code',
    scope: 'openid',
  });
  for (const name of ['state', 'nonce', 'code_challenge'])
    t.equal(address.searchParams.get(name)?.length, 43, name);
  t.match(response.headers.get('set-cookie'), /waybill_login=.*HttpOnly; SameSite=Lax/);
});

t.test('a login that asks for a page of another site redirects to the console', async (t) => {
  const { api } = await startConsole(t);
  for (const next of ['https://evil.example/', '//evil.example', '/v1/runs']) {
    const browser = new HttpBrowser();
    const query = new URLSearchParams({ next }).toString();
    t.equal((await browser.get(`${api.origin}/console/login/start?${query}`)).url, `${api.origin}/console`);
  }
});

t.test("an answer that does not belong to this browser's login is rejected", async (t) => {
  const { api, provider } = await startConsole(t);
  const browser = new HttpBrowser();
  const isAnswer = (url: string): boolean => url.startsWith(`${api.origin}/console/login/callback`);
  const { url: answer } = await browser.get(`${api.origin}/console/login/start`, {
    follow: (url) => !isAnswer(url),
  });
  const { cookies } = browser;
  const attempt = cookies.get('waybill_login') ?? '';
  const changed = (change: (query: URLSearchParams) => void): string => {
    const url = new URL(answer);
    change(url.searchParams);
    return url.href;
  };
  const refusals: [string, string, string | null, RegExp][] = [
    ['another browser', answer, null, /^This login was not started in this browser, or it took more than 10/],
    ['a changed cookie', answer, `${attempt}x`, /^This login was not started in this browser/],
    ['another state', changed((query) => query.set('state', 'x')), attempt, /^This login was not started/],
    ['two states', changed((query) => query.append('state', 'x')), attempt, /^This login was not started/],
    [
      'another issuer',
      changed((query) => query.set('iss', 'https://evil.example')),
      attempt,
      /does not come/,
    ],
    ['no code', changed((query) => query.delete('code')), attempt, /has no code/],
    ['another code', changed((query) => query.set('code', 'x')), attempt, /took too long, or its last page/],
    [
      'text of an attacker',
      changed((query) => query.set('error', 'call 555-0100 <b>now</b>')),
      attempt,
      /^The login failed at 127\.0\.0\.1:\d+\. Try again later/,
    ],
  ];
  for (const [name, url, cookie, words] of refusals) {
    cookies.clear();
    if (cookie !== null) cookies.set('waybill_login', cookie);
    const page = await browser.send(url);
    t.equal(page.status, 403, name);
    t.match(noticeIn(await page.text()), words, name);
    t.notOk(cookies.has('waybill_session'), name);
  }
  cookies.set('waybill_login', attempt);
  t.equal((await browser.get(answer)).url, `${api.origin}/console`, 'the refusals did not use the code');
  cookies.clear();
  cookies.set('waybill_login', attempt);
  const again = await browser.send(answer);
  t.match(
    noticeIn(await again.text()),
    /last page was opened twice\. Log in again\./,
    'the code cannot be used again',
  );

  provider.user = null;
  const denied = await new HttpBrowser().get(`${api.origin}/console/login/start`);
  t.equal(denied.page.status, 403);
  t.match(
    noticeIn(await denied.page.text()),
    /^The login was cancelled or denied at 127\.0\.0\.1:\d+\. Log in/,
  );
});

/** Starts a login whose token request is answered by `answer`. Returns the page after it. */
async function scripted(
  t: Test,
  answer: (nonce: string) => Promise<(req: IncomingMessage, res: ServerResponse) => void>,
  issuer: Awaited<ReturnType<typeof startIssuer>>,
  settings: ApiSettings = {},
): Promise<{ status: number; words: string; api: Api }> {
  const api = await startApi(t, settings);
  const client = { issuer: issuer.url, clientId: 'console' };
  api.reconfigure((access) => ({ ...access, login: loginWith(client, `${api.origin}/`) }));
  const browser = new HttpBrowser();
  const { url } = await browser.get(`${api.origin}/console/login/start`, {
    follow: (url) => !url.startsWith(issuer.url),
  });
  const { searchParams } = new URL(url);
  issuer.answerToken = await answer(searchParams.get('nonce') ?? '');
  const query = new URLSearchParams({ code: 'x', state: searchParams.get('state') ?? '' });
  const page = await browser.send(`${api.origin}/console/login/callback?${query.toString()}`);
  return { status: page.status, words: noticeIn(await page.text()), api };
}

const json =
  (body: object, status = 200) =>
  (_req: IncomingMessage, res: ServerResponse): void =>
    void res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));

t.test('each fault of the provider has one page that names it', async (t) => {
  const issuer = await startIssuer(t);
  const token = (claims: object): ((nonce: string) => Promise<ReturnType<typeof json>>) => {
    return async (nonce) =>
      json({ id_token: await issuer.sign({ aud: 'console', groups: ['readers'], nonce, ...claims }) });
  };
  const past = Math.floor(Date.now() / 1000) - 3_600;
  const quick: ApiSettings = {
    // Shortens the deadline of requests to the issuer only.
    clock: {
      ...systemClock,
      timeout: (ms, work, options) => systemClock.timeout(ms === 10_000 ? 200 : ms, work, options),
    },
  };
  const faults: [string, number, RegExp, Parameters<typeof scripted>[1], ApiSettings?][] = [
    ['a nonce of another login', 403, /belongs to another login/, token({ nonce: 'x' })],
    ['no nonce', 403, /belongs to another login/, token({ nonce: undefined })],
    ['another client', 403, /ID token is for another audience/, token({ aud: 'others' })],
    ['several clients', 403, /for another client/, token({ aud: ['console', 'others'], azp: 'others' })],
    ['an expired ID token', 403, /has expired/, token({ iat: past - 300, exp: past })],
    ['no user', 403, /names no user/, token({ sub: 7 })],
    ['no ID token', 403, /has no ID token/, async () => json({ access_token: 'x' })],
    [
      'not accepted',
      403,
      /is not accepted by .* \(invalid_client\)/,
      async () => json({ error: 'invalid_client' }, 401),
    ],
    ['a server error', 503, /answered 500/, async () => json({}, 500)],
    ['not JSON', 503, /did not answer with JSON/, async () => (_req, res) => void res.end('<html>')],
    ['huge', 503, /more than 256 KiB/, async () => (_req, res) => void res.end('x'.repeat(300_000))],
    [
      'a redirect',
      503,
      /redirects, which is not followed/,
      async () => (_req, res) => void res.writeHead(307, { location: 'http://127.0.0.1:1/' }).end(),
    ],
    ['silent', 503, /did not answer within/, async () => () => undefined, quick],
  ];
  for (const [name, expected, form, answer, settings] of faults) {
    const { status, words } = await scripted(t, answer, issuer, settings);
    t.equal(status, expected, name);
    t.match(words, form, name);
    t.match(words, /^[A-Z].*\. (Log in|Try) .*\.$/, `${name}: names the next step`);
  }
  t.equal((await scripted(t, token({}), issuer)).status, 200, 'without a fault the login succeeds');
});

t.test('the login page names an unreachable provider, and accepts a token', async (t) => {
  const api = await startApi(t);
  const client = { issuer: 'http://127.0.0.1:1', clientId: 'console' };
  api.reconfigure((access) => ({ ...access, login: loginWith(client, `${api.origin}/`) }));
  const page = await new HttpBrowser().send(`${api.origin}/console/login/start`);
  t.equal(page.status, 503);
  t.match(page.headers.get('retry-after'), /^\d+$/);
  const text = await page.text();
  t.match(noticeIn(text), /127\.0\.0\.1:1 cannot be reached/);
  t.match(text, /<label for="token">/);
});

t.test('without the setting there is no login with a provider', async (t) => {
  const api = await startApi(t);
  const page = await (await fetch(`${api.origin}/console/login`)).text();
  t.notMatch(page, /login\/start/);
  for (const path of ['start', 'callback'])
    t.equal((await fetch(`${api.origin}/console/login/${path}`)).status, 404, path);
});

t.test('failed answers of one client are limited', async (t) => {
  const { api, provider } = await startConsole(t);
  provider.user = null;
  const statuses = new Set<number>();
  for (let attempt = 0; attempt < 12; attempt += 1)
    statuses.add((await new HttpBrowser().send(`${api.origin}/console/login/callback`)).status);
  t.same([...statuses], [403, 429]);
});

t.test('a role decides what a user can see and do', async (t) => {
  const { api, provider } = await startConsole(t);
  const browser = new HttpBrowser();
  const csrf = await browser.logIn(api);
  const get = async (path: string): Promise<{ status: number; text: string }> => {
    const page = await browser.send(`${api.origin}/console${path}`);
    return { status: page.status, text: await page.text() };
  };
  const account = (await get('/account')).text.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ');
  t.match(account, /maps operator (✓ yes ){5}docs viewer ✓ yes (– no ){4}/);
  t.notMatch((await get('')).text, />files</);
  t.match((await get('/pipelines/maps')).text, /Pause/, 'an operator can pause');
  const { text } = await get('/pipelines/docs');
  t.notMatch(text, /Pause|Upload a bundle/, 'a viewer cannot');
  t.match(
    text,
    /The account <code>[^<]+<.code> may not upload to <code>docs<[^]*Uploads need the role <code>operator</,
  );
  for (const path of ['/pipelines/files', '/admin', '/audit', '/pipelines/docs/upload'])
    t.equal((await get(path)).status, 403, path);
  t.match((await get('/admin')).text, /needs the role admin\./);
  const post = async (path: string): Promise<Response> =>
    browser.send(`${api.origin}/console${path}`, { csrf });
  const refused = await post('/pipelines/docs/pause');
  t.equal(refused.status, 403);
  t.match(await refused.text(), /your role viewer for the pipeline (?:"|&#34;)docs/);
  t.equal((await post('/pipelines/maps/pause')).status, 303);
  t.equal((await post('/admin/reload')).status, 403);

  provider.user = { id: 'grace', claims: { groups: ['admins'] } };
  const admin = new HttpBrowser();
  const own = await admin.logIn(api);
  const daemon = await admin.send(`${api.origin}/console/admin`);
  t.match(await daemon.text(), /grace \(admin\)/);
  t.equal((await admin.send(`${api.origin}/console/admin/reload`, { csrf: own })).status, 303);
  t.equal((await admin.send(`${api.origin}/console/pipelines/files/start`, { csrf: own })).status, 303);

  provider.user = { id: 'eve', claims: { groups: ['others'], email: 'eve@example.org' } };
  const stranger = await new HttpBrowser().get(`${api.origin}/console/login/start`);
  t.equal(stranger.page.status, 403);
  t.match(noticeIn(await stranger.page.text()), /as eve@example\.org, but you have no role in this console/);
});

t.test('a session ends when its role is removed or changed, and never gains another role', async (t) => {
  const { api } = await startConsole(t);
  const browser = new HttpBrowser();
  await browser.logIn(api);
  const status = async (): Promise<number> => (await browser.send(`${api.origin}/console`)).status;
  const { login } = api.ports.configured.get();
  if (login === null) throw new TypeError('there is a login');
  const [admin, operator, viewer] = login.roles;
  if (admin === undefined || operator === undefined || viewer === undefined)
    throw new TypeError('three roles');
  const withRoles = (...roles: (typeof login.roles)[number][]): void =>
    api.reconfigure((access) => ({ ...access, login: { ...login, roles } }));
  withRoles(viewer);
  t.match(await (await browser.send(`${api.origin}/console`)).text(), /ada \(viewer\)/);
  withRoles(admin);
  t.equal(await status(), 303, 'the role of other users');
  withRoles({ ...operator, id: 'changed' });
  t.equal(await status(), 303, 'a changed role');
  withRoles(...login.roles);
  t.equal(await status(), 200);
  api.reconfigure((access) => ({ ...access, login: null }));
  t.equal(await status(), 303, 'no login');
});

t.test(
  'a global logout ends all sessions of the user, on all hosts, but none that begin later',
  async (t) => {
    const revokedSessions = inProcessRevokedSessions({ clock: systemClock });
    const { api, provider } = await startConsole(t, { ports: { identity: { revokedSessions } } });
    const other = await startApi(t, { ports: { identity: { revokedSessions } } });
    const { login } = api.ports.configured.get();
    other.reconfigure((access) => ({ ...access, login }));
    const [here, there, token] = [new HttpBrowser(), new HttpBrowser(), new HttpBrowser()];
    const csrf = await here.logIn(api);
    await there.logIn(api);
    await token.send(`${api.origin}/console/login`, { token: 'token-of-the-pipeline-maps' });
    provider.user = { id: 'grace', claims: { groups: ['admins'] } };
    const grace = new HttpBrowser();
    await grace.logIn(api);
    const statuses = async (): Promise<number[]> =>
      Promise.all(
        [here, there, token, grace].map(async (one) => (await one.send(`${other.origin}/console`)).status),
      );
    t.same(await statuses(), [200, 200, 200, 200]);
    const events = await fetch(`${other.origin}/console/events`, {
      headers: { cookie: `waybill_session=${there.cookies.get('waybill_session') ?? ''}` },
    });
    const end = await here.send(`${api.origin}/console/logout`, { csrf, everywhere: 'yes' });
    t.match(end.headers.get('location'), /done=logged_out_everywhere/);
    t.same(await statuses(), [303, 303, 200, 200]);
    t.match(await events.text(), /event: end\n[^]*"reason":"token_revoked"/, 'an open page ends');
    provider.user = { id: 'ada', claims: { groups: ['publishers'] } };
    const later = new HttpBrowser();
    t.not(csrfIn(await later.logIn(api)), csrf);
    t.equal((await later.send(`${other.origin}/console`)).status, 200, 'a later login');
  },
);
