import { SignJWT } from 'jose';
import t from 'tap';
import type { ApiAccess } from '../../../src/api/api-services.ts';
import { grantSeal } from '../../../src/api/publishers/access-token.ts';
import { daemonRoutes } from '../../../src/cli/daemon/daemon-app.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { inProcessRevokedSessions } from '../../../src/workers/queue/revoked-sessions.ts';
import { startIssuer } from '../../services/issuer.ts';
import { type Api, connect, publishersOf, startApi, upload, uploadHead } from '../harness.ts';
import { begin, tus } from '../resumable/tus.ts';
import { answered } from '../stalled-bodies.ts';
import { accessToken, claims, exchange, publisherOf } from './exchange.ts';

/** Access tokens on every route that accepts upload tokens, and their expiry. */

const everything = { scopes: ['upload', 'run', 'cancel', 'releases', 'read'] as const };
const all = { ...everything, scopes: [...everything.scopes], pipelines: ['maps', 'files'] };
const withoutPublishers = (access: ApiAccess): ApiAccess => ({ ...access, publishers: publishersOf([]) });

async function start(t: Parameters<typeof startApi>[0], more = {}): Promise<{ api: Api; token: string }> {
  const issuer = await startIssuer(t);
  const publishers = [publisherOf(issuer.url, { ...all, ...more })];
  const api = await startApi(t, { publishers, http: { protectRuns: true, protectSceneMaps: true } });
  return { api, token: await accessToken(api.origin, await issuer.sign(claims)) };
}

t.test('every route that accepts an upload token accepts an access token', async (t) => {
  const { api, token } = await start(t);
  const { run_id: runId } = (await (await upload(api.origin, { token })).json()) as { run_id: string };
  const at = await begin(api.origin, 3, { token });
  const uploadId = at.slice(at.lastIndexOf('/') + 1);
  const ids = { pipeline_id: 'maps', run_id: runId, notifier_id: 'hook', upload_id: uploadId };
  const forAdmin: string[] = [];
  for (const { method, path, operationId, access } of daemonRoutes.filter((one) => one.access !== 'open')) {
    const url = `${api.origin}${path.replaceAll(/\{(\w+)\}/g, (_, name: keyof typeof ids) => ids[name])}`;
    const abort = new AbortController();
    const headers = { authorization: `Bearer ${token}`, 'upload-offset': '9' };
    const { status } = await fetch(url, { method: method.toUpperCase(), headers, signal: abort.signal });
    abort.abort();
    if (status === 403) forAdmin.push(operationId);
    t.not(status, 401, `${operationId} (${access})`);
  }
  t.same(forAdmin.sort(), ['listAudit', 'listUndelivered', 'redeliver', 'reload']);
  const request = { method: 'POST', headers: { authorization: `Bearer ${token}` } };
  t.equal((await fetch(`${api.origin}/v1/pipelines/files/runs`, request)).status, 202);
  t.equal((await tus('PATCH', at, { token, headers: { 'upload-offset': '0' }, body: 'abc' })).status, 204);
  const { runs } = await api.ports.queue.list(['maps', 'files'], { limit: 10 });
  for (const { published_by: by } of runs)
    t.match(by, { publisher_id: 'site-ci', repository: 'octo-org/site' });
  t.equal(runs.length, 3, 'two uploads and a run of the source');
  t.notMatch(JSON.stringify(api.lines), token, 'no log line has the token');
  t.ok(api.lines.some(({ fields }) => fields['token_id'] === 'site-ci' && fields['ci_run_id'] === '77'));
});

t.test('the removal of a publisher ends streams, bodies and waits within seconds', async (t) => {
  const { api, token } = await start(t);
  const authorization = `Bearer ${token}`;
  const { run_id: runId } = (await (await upload(api.origin, { token })).json()) as { run_id: string };
  const stream = await fetch(`${api.origin}/v1/events`, { headers: { authorization } });
  const body = await connect(t, api.origin);
  body.socket.write(`${uploadHead({ Authorization: authorization, 'Content-Length': 100 })}x`);
  const at = new URL(await begin(api.origin, 1000, { token })).pathname;
  const chunk = await connect(t, api.origin);
  const tusHeaders = {
    'Tus-Resumable': '1.0.0',
    'Upload-Offset': 0,
    'Content-Type': 'application/offset+octet-stream',
  };
  chunk.socket.write(
    `${uploadHead({ Authorization: authorization, 'Content-Length': 1000, ...tusHeaders }, at).replace('POST', 'PATCH')}x`,
  );
  const wait = fetch(`${api.origin}/runs/${runId}?wait=60`, { headers: { authorization } });
  while ((await api.staged()).length < 2) await new Promise((resolve) => setImmediate(resolve));
  api.reconfigure(withoutPublishers);
  t.match(await stream.text(), /event: end\n[^]*"reason":"token_revoked"/);
  for (const { until } of [body, chunk])
    t.match(await until(answered), /^HTTP\/1.1 401 [^]*"code":"unauthorized"/);
  t.equal((await wait).status, 401);
  t.equal((await upload(api.origin, { token })).status, 401);
});

t.test('an access token expires, also for a stream', async (t) => {
  const { api, token } = await start(t, { maxLifetimeMs: 2_000 });
  const stream = await fetch(`${api.origin}/v1/events`, { headers: { authorization: `Bearer ${token}` } });
  t.match(await stream.text(), /event: end\n[^]*"reason":"token_expired"/);
  t.match(await (await upload(api.origin, { token })).json(), {
    code: 'token_expired',
    hint: /max_lifetime/,
  });
});

t.test('refuses an access token that was issued while the clock was ahead', async (t) => {
  const issuer = await startIssuer(t);
  let aheadMs = 0;
  const clock = { ...systemClock, now: () => new Date(Date.now() + aheadMs) };
  const api = await startApi(t, { publishers: [publisherOf(issuer.url, all)], ports: { clock } });
  // The clocks of hosts may differ slightly.
  aheadMs = 60_000;
  const soon = await accessToken(api.origin, await issuer.sign(claims));
  aheadMs = 365 * 86_400_000;
  const [iat, exp] = [clock.now().getTime() / 1000, clock.now().getTime() / 1000 + 60];
  const token = await accessToken(api.origin, await issuer.sign({ ...claims, iat, exp }));
  aheadMs = 0;
  t.match(await (await upload(api.origin, { token })).json(), { code: 'token_expired' });
  t.equal((await upload(api.origin, { token: soon })).status, 202);
});

t.test('a reload limits the rights of tokens that were issued before', async (t) => {
  const issuer = await startIssuer(t);
  const before = publisherOf(issuer.url, all);
  const api = await startApi(t, { publishers: [before] });
  const token = await accessToken(api.origin, await issuer.sign(claims));
  const statusWith = async (change: object): Promise<number> => {
    api.reconfigure((access) => ({ ...access, publishers: publishersOf([{ ...before, ...change }]) }));
    return (await upload(api.origin, { token })).status;
  };
  t.equal(await statusWith({ scopes: ['read'] }), 403);
  t.equal(await statusWith({ pipelines: ['docs'] }), 403, 'old tokens do not apply to a new pipeline');
  t.equal(
    await statusWith({ claims: { repository_id: '12345' } }),
    401,
    'other rules require another exchange',
  );
  t.equal(await statusWith({ audience: 'https://other.example.org' }), 401);
  t.equal(await statusWith({ maxLifetimeMs: 60_000 }), 202);
});

t.test('two API hosts share only the key and the used ID tokens', async (t) => {
  const issuer = await startIssuer(t);
  const publishers = [publisherOf(issuer.url)];
  const revokedSessions = inProcessRevokedSessions({ clock: systemClock });
  const [one, other] = [
    await startApi(t, { publishers, ports: { identity: { revokedSessions } } }),
    await startApi(t, { publishers, ports: { identity: { revokedSessions } } }),
  ];
  const idToken = await issuer.sign(claims);
  const token = await accessToken(one.origin, idToken);
  t.equal((await upload(other.origin, { token })).status, 202, 'the other host accepts the token');
  t.match((await exchange(other.origin, idToken)).body, { code: 'id_token_refused', detail: /used before/ });
});

t.test('only the two configured keys decrypt a token, and only an unchanged one', async (t) => {
  const grant = {
    by: {
      publisher_id: 'site',
      subject: null,
      repository: null,
      ref: null,
      sha: null,
      ci_run_id: null,
      claims_digest: '',
    },
    rules: 'r',
    pipelines: ['maps'],
    scopes: ['upload' as const],
    issuedAt: new Date(0),
    expiresAt: new Date(5_000),
  };
  const [old, now] = ['o'.repeat(32), 'n'.repeat(32)];
  const token = grantSeal([old]).seal(grant);
  t.same(grantSeal([now, old]).open(token), grant, 'rotation: the second key is accepted');
  t.equal(grantSeal([now]).open(token), null, 'after the rotation');
  t.same(grantSeal([now]).open(grantSeal([now, old]).seal(grant)), grant, 'the first key signs');
  const [head = '', body = '', mac = ''] = token.split('.');
  const none = Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url');
  const wider = Buffer.from(Buffer.from(body, 'base64url').toString().replace('maps', 'docs')).toString(
    'base64url',
  );
  const foreign = await new SignJWT({})
    .setProtectedHeader({ alg: 'HS256', typ: 'at+jwt' })
    .sign(Buffer.from(old));
  for (const changed of [
    `${head}.${wider}.${mac}`,
    `${none}.${body}.`,
    `${none}.${body}.${mac}`,
    `${head}.${body}.`,
    `${head}.${body}`,
    `${head}.${body}.${mac}.x`,
    foreign,
    '',
    '..',
  ])
    t.equal(grantSeal([old]).open(changed), null, changed);
});
