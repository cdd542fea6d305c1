import { createHmac } from 'node:crypto';
import { exportSPKI, generateKeyPair, importJWK, SignJWT, UnsecuredJWT } from 'jose';
import t, { type Test } from 'tap';
import type { AuditTarget } from '../../../src/api/http/recorded-acts.ts';
import type { ActEntry } from '../../../src/core/audit/record.ts';
import { audience, type Issuer, startIssuer } from '../../services/issuer.ts';
import { type Api, startApi, upload } from '../harness.ts';
import { accessToken, claims, exchange, publisherOf } from './exchange.ts';

interface Place {
  api: Api;
  issuer: Issuer;
}

async function start(t: Test, more: Parameters<typeof publisherOf>[1] = {}): Promise<Place> {
  const issuer = await startIssuer(t);
  const api = await startApi(t, { publishers: [publisherOf(issuer.url, more)] });
  return { api, issuer };
}

t.test('an ID token is exchanged for a token that uploads, and the run names the publisher', async (t) => {
  const { api, issuer } = await start(t);
  const { status, body, headers } = await exchange(api.origin, await issuer.sign(claims));
  t.equal(status, 200);
  t.match(body, {
    issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    token_type: 'Bearer',
    expires_in: 900,
    scope: 'upload read',
    publisher_id: 'site-ci',
    pipelines: ['maps'],
  });
  t.equal(headers.get('cache-control'), 'no-store');
  const accepted = await upload(api.origin, { token: String(body['access_token']) });
  t.equal(accepted.status, 202);
  const { run_id: runId } = (await accepted.json()) as { run_id: string };
  const record = (await (await fetch(`${api.origin}/runs/${runId}`)).json()) as object;
  t.match(record, {
    published_by: {
      publisher_id: 'site-ci',
      subject: 'job',
      repository: 'octo-org/site',
      ref: 'refs/heads/main',
      sha: claims.sha,
      ci_run_id: '77',
      claims_digest: /^sha256:[0-9a-f]{64}$/,
    },
  });
});

t.test('ES256 and EdDSA are accepted', async (t) => {
  for (const alg of ['ES256', 'EdDSA']) {
    const { api, issuer } = await start(t);
    await issuer.rotate(alg);
    t.equal((await exchange(api.origin, await issuer.sign(claims))).status, 200, alg);
  }
});

/** A trail in memory, without uses of tokens. */
function auditOf(): { audit: AuditTarget; entries: ActEntry[] } {
  const entries: ActEntry[] = [];
  const append = async (entry: ActEntry): Promise<void> => {
    if (entry.act !== 'token.use') entries.push(entry);
  };
  return {
    audit: { trail: { requireWritable: async () => undefined, append }, directory: '/nowhere' },
    entries,
  };
}

const now = (): number => Math.floor(Date.now() / 1000);

t.test('every other ID token is rejected, with the reason and the OAuth error', async (t) => {
  const issuer = await startIssuer(t);
  const publicKey = await importJWK({ ...issuer.keys[0], ext: true }, 'RS256', { extractable: true });
  const pem = await exportSPKI(publicKey as Parameters<typeof exportSPKI>[0]);
  const hmac = (): string => {
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const head = part({ alg: 'HS256', typ: 'JWT', kid: 'key-1' });
    const body = part({ ...claims, iss: issuer.url, aud: audience, iat: now(), exp: now() + 300 });
    return `${head}.${body}.${createHmac('sha256', pem).update(`${head}.${body}`).digest('base64url')}`;
  };
  const foreign = await generateKeyPair('RS256');
  const forged = new SignJWT({ ...claims, iss: issuer.url, aud: audience, iat: now(), exp: now() + 300 })
    .setProtectedHeader({ alg: 'RS256', kid: 'key-1' })
    .sign(foreign.privateKey);
  const unsigned = new UnsecuredJWT({ ...claims, iss: issuer.url, aud: audience, iat: now() }).encode();
  const cases: Record<string, [token: string | Promise<string>, reason: RegExp]> = {
    expired: [issuer.sign({ ...claims, iat: now() - 900, exp: now() - 120 }), /has expired/],
    'issued in the future': [issuer.sign({ ...claims, iat: now() + 120 }), /not valid yet.*iat/],
    'not valid before': [issuer.sign({ ...claims, nbf: now() + 120 }), /not valid yet.*nbf/],
    'older than a day': [issuer.sign({ ...claims, iat: now() - 90_000 }), /older than 24 h/],
    'without exp': [issuer.sign({ ...claims, exp: undefined }), /claim exp .* missing/],
    'without iat': [issuer.sign({ ...claims, iat: undefined }), /iat/],
    'exp as text': [issuer.sign({ ...claims, exp: '9999999999' }), /claim exp|not a valid/],
    'another audience': [issuer.sign({ ...claims, aud: 'https://other.example.org' }), /another audience/],
    'audience as a number': [issuer.sign({ ...claims, aud: 5 }), /another audience|valid signed JWT/],
    'another issuer': [
      issuer.sign({ ...claims, iss: 'https://evil.example.org' }),
      /no trusted publisher has/,
    ],
    'issuer as a list': [issuer.sign({ ...claims, iss: [issuer.url] }), /no trusted publisher has/],
    'alg none': [unsigned, /algorithm .* is not one of/],
    'HS256 with the public key': [hmac(), /algorithm .* is not one of/],
    'the key of another issuer': [forged, /signature .* does not match/],
    'a claim as a number': [issuer.sign({ ...claims, repository_id: 12345 }), /different: repository_id/],
    'a claim as a list': [issuer.sign({ ...claims, ref: ['refs/heads/main'] }), /different: ref/],
    'another value': [issuer.sign({ ...claims, ref: 'refs/heads/dev' }), /different: ref/],
    'a missing claim': [issuer.sign({ ...claims, repository_id: undefined }), /different: repository_id/],
    oversized: [issuer.sign({ ...claims, padding: 'x'.repeat(20_000) }), /more than 16384 bytes/],
    'no JWT': ['canary', /not a signed JWT/],
    'an empty text': ['', /not a signed JWT/],
    'two dots': ['..', /not a signed JWT/],
  };
  const exchangeLimit = { admit: async () => undefined, failed: async () => undefined };
  const { audit, entries } = auditOf();
  const publishers = [publisherOf(issuer.url)];
  const { origin, lines } = await startApi(t, { publishers, ports: { identity: { exchangeLimit }, audit } });
  const secrets: string[] = [];
  for (const [name, [token, reason]] of Object.entries(cases)) {
    const sent = await token;
    secrets.push(...sent.split('.').filter((part) => part.length > 5));
    const { status, body } = await exchange(origin, sent);
    t.equal(status, 400, name);
    const isTooLong = name === 'oversized';
    const code = isTooLong ? 'invalid_request' : 'id_token_refused';
    t.match(body, { code, error: 'invalid_request', retryable: false }, name);
    t.match(String(body['error_description']), reason, name);
    const written = JSON.stringify([body, lines.splice(0), entries]);
    for (const secret of secrets) t.notOk(written.includes(secret), `${name}: the token appears nowhere`);
  }
  // Refusals without a token share a record for each code.
  const refusal = { act: 'token.exchange', result: 'refused', actor: { type: 'anonymous', id: null } };
  t.match(entries, [
    { ...refusal, code: 'id_token_refused' },
    { ...refusal, code: 'invalid_request' },
  ]);
  t.equal((await exchange(origin, await issuer.sign(claims))).status, 200, 'the genuine one');
});

t.test('an unknown key id is rejected after one refetch of the keys per minute', async (t) => {
  const { api, issuer } = await start(t);
  t.equal((await exchange(api.origin, await issuer.sign(claims))).status, 200);
  const { status, body, headers } = await exchange(api.origin, await issuer.sign(claims, { kid: 'other' }));
  t.equal(status, 503);
  t.match(body, { code: 'issuer_unavailable', error: 'temporarily_unavailable' });
  t.ok(Number(headers.get('retry-after')) > 50);
  t.equal(issuer.requests(), 1, 'the keys are not fetched again within the minute');
  const { audit, entries } = auditOf();
  const fresh = await startApi(t, { publishers: [publisherOf(issuer.url)], ports: { audit } });
  const refused = await exchange(fresh.origin, await issuer.sign(claims, { kid: 'other' }));
  t.match(entries, [{ act: 'token.exchange', result: 'refused', code: 'id_token_refused' }]);
  t.match(refused, { status: 400, body: { code: 'id_token_refused', detail: /no such key/ } });
});

t.test('an ID token is accepted once, with and without jti', async (t) => {
  const issuer = await startIssuer(t);
  const { audit, entries } = auditOf();
  const { origin, lines } = await startApi(t, { publishers: [publisherOf(issuer.url)], ports: { audit } });
  for (const more of [{}, { jti: undefined }, { jti: 5 }]) {
    const token = await issuer.sign({ ...claims, ...more });
    const answers = await Promise.all([1, 2, 3].map(() => exchange(origin, token)));
    const written = JSON.stringify([lines, entries]);
    for (const part of token.split('.')) t.notOk(written.includes(part), 'the token appears nowhere');
    t.same(answers.map(({ status }) => status).sort(), [200, 400, 400]);
    t.match(answers.find(({ status }) => status === 400)?.body, { detail: /used before/ });
  }
  const results = entries.map(({ result, code }) => `${result} ${code ?? ''}`).sort();
  t.same(results, ['done ', 'done ', 'done ', 'refused id_token_refused'], 'refusals share a record');
});

t.test('a form that is not a token exchange gets the error of RFC 6749', async (t) => {
  const { api, issuer } = await start(t);
  for (const [more, error] of [
    [{ grant_type: 'client_credentials' }, 'unsupported_grant_type'],
    [{ subject_token_type: 'urn:ietf:params:oauth:token-type:saml2' }, 'invalid_request'],
    [{ requested_token_type: 'urn:ietf:params:oauth:token-type:saml2' }, 'invalid_request'],
    [{ scope: 'upload everything' }, 'invalid_scope'],
    [{ scope: 'run' }, 'invalid_scope'],
    [{ pipeline: 'docs' }, 'invalid_request'],
    [{ padding: 'x'.repeat(16_384) }, 'invalid_request'],
  ] as const) {
    const idToken = await issuer.sign(claims);
    const { status, body } = await exchange(api.origin, idToken, more);
    t.equal(status, 400);
    t.match(body, { error, error_description: /./, title: 'Bad Request' });
    t.equal((await exchange(api.origin, idToken)).status, 200, 'the ID token can still be used');
  }
  const json = await fetch(`${api.origin}/v1/token`, {
    method: 'POST',
    body: '{}',
    headers: { 'content-type': 'application/json' },
  });
  t.equal(json.status, 415);
  const twice = await fetch(`${api.origin}/v1/token`, {
    method: 'POST',
    body: 'scope=read&scope=upload',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  });
  t.match(await twice.json(), { code: 'invalid_request', detail: /"scope" is repeated/ });
});

t.test('too many rejected ID tokens of one client are rejected before verification', async (t) => {
  const { api, issuer } = await start(t);
  for (let tried = 0; tried < 10; tried += 1) await exchange(api.origin, 'x');
  const { status, body } = await exchange(api.origin, await issuer.sign(claims));
  t.equal(status, 429);
  t.match(body, { code: 'too_many_logins', error: 'temporarily_unavailable' });
});

t.test('a scope and a pipeline restrict the token', async (t) => {
  const { api, issuer } = await start(t, { pipelines: ['maps', 'docs'] });
  const { body } = await exchange(api.origin, await issuer.sign(claims), { scope: 'read', pipeline: 'docs' });
  t.match(body, { scope: 'read', pipelines: ['docs'] });
  const token = String(body['access_token']);
  t.equal((await upload(api.origin, { token, pipeline: 'docs' })).status, 403);
  t.match(await (await upload(api.origin, { token })).json(), { code: 'forbidden' });
});

t.test('a publisher cannot access the pipelines of another', async (t) => {
  const issuer = await startIssuer(t);
  const docs = publisherOf(issuer.url, {
    id: 'docs-ci',
    claims: { repository_id: '9' },
    pipelines: ['docs'],
  });
  const api = await startApi(t, { publishers: [publisherOf(issuer.url), docs], http: { protectRuns: true } });
  const maps = await accessToken(api.origin, await issuer.sign(claims));
  const other = await accessToken(api.origin, await issuer.sign({ ...claims, repository_id: '9' }));
  const { run_id: runId } = (await (await upload(api.origin, { token: maps })).json()) as { run_id: string };
  const get = async (path: string, token: string): Promise<Response> =>
    fetch(`${api.origin}${path}`, { headers: { authorization: `Bearer ${token}` } });
  t.equal((await get(`/runs/${runId}`, maps)).status, 200);
  t.equal((await get(`/runs/${runId}`, other)).status, 403);
  t.equal((await get(`/runs/${runId}/events`, other)).status, 403);
  t.equal((await get('/v1/runs?pipeline=maps', other)).status, 403);
  t.equal((await upload(api.origin, { token: other })).status, 403);
  t.match(await (await get('/v1/runs', other)).json(), { runs: { length: 0 } });
});
