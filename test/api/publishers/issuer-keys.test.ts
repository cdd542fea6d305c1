import { exportJWK, generateKeyPair, type JWK } from 'jose';
import t from 'tap';
import { FetchFailure, fetchJson, maxDocumentBytes } from '../../../src/api/publishers/fetch-json.ts';
import { IssuerKeys, keySetOf } from '../../../src/api/publishers/issuer-keys.ts';
import type { ActEntry } from '../../../src/core/audit/record.ts';
import { startIssuer } from '../../services/issuer.ts';
import { manualClock } from '../../workers/manual-clock.ts';
import { startApi } from '../harness.ts';
import { claims, exchange, publisherOf } from './exchange.ts';

t.test('an issuer that is unreachable, invalid, oversized or redirects is a temporary failure', async (t) => {
  const issuer = await startIssuer(t);
  const elsewhere = await startIssuer(t);
  const cases: Record<string, [answer: NonNullable<typeof issuer.answer>, reason: RegExp]> = {
    'an error': [(_req, res) => res.writeHead(500).end(), /answered 500/],
    'a redirect to another host': [
      (_req, res) => res.writeHead(302, { location: `${elsewhere.url}/jwks` }).end(),
      /redirects/,
    ],
    'a broken connection': [(req) => req.socket.destroy(), /cannot be reached \(ECONNRESET\)/],
    'another protocol': [
      (req) =>
        req.socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'),
      /closed the connection without an answer/,
    ],
    'no JSON': [(_req, res) => res.end('<html>'), /did not answer with JSON/],
    'no keys': [(_req, res) => res.end('{"keys": 5}'), /no list of keys/],
    'a key without a kind': [(_req, res) => res.end('{"keys": [{}]}'), /no list of keys/],
    'too many keys': [
      (_req, res) => res.end(JSON.stringify({ keys: Array(101).fill({ kty: 'oct' }) })),
      /more than 100 keys/,
    ],
    'a body without an end': [
      (_req, res) => {
        const more = (): void => {
          if (!res.destroyed) res.write(Buffer.alloc(maxDocumentBytes, ' '), more);
        };
        more();
      },
      /more than 256 KiB/,
    ],
  };
  for (const [name, [answer, reason]] of Object.entries(cases)) {
    issuer.answer = answer;
    const entries: ActEntry[] = [];
    const append = async (entry: ActEntry): Promise<void> => void entries.push(entry);
    const audit = { trail: { requireWritable: async () => undefined, append }, directory: '/nowhere' };
    const { origin } = await startApi(t, { publishers: [publisherOf(issuer.url)], ports: { audit } });
    const { status, body, headers } = await exchange(origin, await issuer.sign(claims));
    t.match(entries, [{ act: 'token.exchange', result: 'failed', code: 'issuer_unavailable' }], name);
    t.equal(status, 503, name);
    t.match(body, { code: 'issuer_unavailable', error: 'temporarily_unavailable', retryable: true }, name);
    t.match(String(body['detail']), reason, name);
    t.notMatch(String(body['detail']), '/jwks', `${name}: no path`);
    t.equal(headers.get('retry-after'), '60');
  }
  t.equal(elsewhere.requests(), 0, 'the redirect was not followed');
});

t.test('an endless answer is abandoned after ten seconds', async (t) => {
  const issuer = await startIssuer(t);
  const clock = manualClock();
  const asked = new Promise<void>((resolve) => {
    issuer.answer = (_req, res) => {
      res.write('{');
      resolve();
    };
  });
  const failure = new FetchFailure(`${issuer.url} did not answer within 10 s`);
  const refused = t.rejects(fetchJson(new URL(`${issuer.url}/jwks`), clock), failure);
  await asked;
  await clock.advance(10_000);
  await refused;
});

t.test('the address policy of webhooks applies to issuers', async (t) => {
  for (const host of ['169.254.169.254', '[fd00:ec2::254]', '0.0.0.0', '100.100.100.200'])
    await t.rejects(fetchJson(new URL(`http://${host}/`), manualClock()), { message: /is refused/ }, host);
});

t.test('weak keys and keys that cannot verify an ID token are omitted', async (t) => {
  const of = async (alg: string, more: object = {}): Promise<JWK> => {
    const { publicKey } = await generateKeyPair(alg, { extractable: true, ...more });
    return exportJWK(publicKey);
  };
  const strong = { ...(await of('RS256')), kid: 'strong' };
  const modulus = Buffer.from(strong.n ?? '', 'base64url');
  const short = { ...strong, n: modulus.subarray(0, 255).toString('base64url'), kid: 'short' };
  const padded = {
    ...strong,
    n: Buffer.concat([Buffer.alloc(8), modulus.subarray(0, 248)]).toString('base64url'),
    kid: 'padded',
  };
  const { ids, weakIds } = keySetOf(
    {
      keys: [
        strong,
        short,
        padded,
        { kty: 'oct', k: 'AAAA', kid: 'mac' },
        { ...strong, use: 'enc', kid: 'encryption' },
      ],
    },
    'it',
  );
  t.same([...ids], ['strong', 'short', 'padded', 'mac', 'encryption']);
  t.same([...weakIds], ['short', 'padded']);
  const issuer = await startIssuer(t);
  issuer.keys = issuer.keys.map((key) => ({ ...key, n: short.n }));
  const entries: ActEntry[] = [];
  const append = async (entry: ActEntry): Promise<void> => void entries.push(entry);
  const audit = { trail: { requireWritable: async () => undefined, append }, directory: '/nowhere' };
  const { origin } = await startApi(t, { publishers: [publisherOf(issuer.url)], ports: { audit } });
  const { status, body } = await exchange(origin, await issuer.sign(claims));
  t.equal(status, 400);
  t.match(body, { code: 'id_token_refused', detail: /RSA key of fewer than 2,048 bits/ });
  t.match(entries, [{ act: 'token.exchange', result: 'refused', code: 'id_token_refused' }]);
});

t.test('an ID token with a malformed key is rejected', async (t) => {
  const issuer = await startIssuer(t);
  issuer.keys = issuer.keys.map((key) => ({ ...key, e: '' }));
  const { origin } = await startApi(t, { publishers: [publisherOf(issuer.url)] });
  const { status, body } = await exchange(origin, await issuer.sign(claims));
  t.match({ status, body }, { status: 400, body: { code: 'id_token_refused' } });
});

t.test(
  'keys are refreshed at most once a minute, and stay in use while the issuer is unreachable',
  async (t) => {
    const issuer = await startIssuer(t);
    const clock = manualClock();
    const fetch: typeof fetchJson = (url) => fetchJson(url, manualClock());
    const keys = new IssuerKeys(clock, fetch);
    const [first] = await Promise.all([1, 2, 3].map(() => keys.find(issuer.url, 'key-1')));
    t.ok(first?.ids.has('key-1'));
    t.equal(issuer.requests(), 1, 'concurrent exchanges share a request');

    const second = await issuer.rotate();
    await t.rejects(keys.find(issuer.url, second), { code: 'issuer_unavailable', retryAfterSeconds: 60 });
    t.ok((await keys.find(issuer.url, 'key-1')).ids.has('key-1'), 'the known key works meanwhile');
    await clock.advance(60_000);
    t.ok((await keys.find(issuer.url, second)).ids.has(second), 'the new key is found after a minute');
    t.equal(issuer.requests(), 2);

    issuer.answer = (_req, res) => res.writeHead(500).end();
    await clock.advance(3_600_000);
    t.ok(
      (await keys.find(issuer.url, second)).ids.has(second),
      'the cached key works while the issuer is down',
    );
    t.equal(issuer.requests(), 3);
    await clock.advance(60_000);
    await t.rejects(keys.find(issuer.url, 'key-9'), { code: 'issuer_unavailable', message: /answered 500/ });
    issuer.answer = null;
    issuer.keys.shift();
    await clock.advance(60_000);
    t.notOk((await keys.find(issuer.url, 'key-1')).ids.has('key-1'), 'a removed key is forgotten');
  },
);

t.test('a discovery document of another issuer is rejected', async (t) => {
  const issuer = await startIssuer(t);
  const keys = new IssuerKeys(manualClock(), (url) => fetchJson(url, manualClock()));
  await t.rejects(keys.find(`${issuer.url}/`, 'key-1'), { message: /names another issuer/ });
});

t.test('a discovery document that refers to another host is rejected', async (t) => {
  const issuer = 'https://issuer.example';
  for (const [document, message] of [
    [{ issuer, jwks_uri: 'https://169.254.169.254/keys' }, /169\.254\.169\.254 is .*refused/],
    [{ issuer, jwks_uri: 'https://[fd00:ec2::254]/keys' }, /is refused/],
    [{ issuer, jwks_uri: 'http://issuer.example/keys' }, /no jwks_uri with https/],
    [{ issuer, jwks_uri: 'file:///etc/passwd' }, /no jwks_uri with https/],
    [{ issuer, jwks_uri: 5 }, /no jwks_uri with https/],
    [{ issuer: 'https://other.example', jwks_uri: 'https://issuer.example/keys' }, /names another issuer/],
    [null, /names another issuer/],
    ['text', /names another issuer/],
  ] as const) {
    const fetch: typeof fetchJson = (url, clock) =>
      url.pathname.endsWith('openid-configuration') ? Promise.resolve(document) : fetchJson(url, clock);
    const keys = new IssuerKeys(manualClock(), fetch);
    await t.rejects(keys.find(issuer, 'key-1'), { code: 'issuer_unavailable', message });
  }
});

t.test('a key that is not for signatures never verifies an ID token', async (t) => {
  const issuer = await startIssuer(t);
  issuer.keys = issuer.keys.map((key) => ({ ...key, use: 'enc' }));
  const { origin } = await startApi(t, { publishers: [publisherOf(issuer.url)] });
  const { body } = await exchange(origin, await issuer.sign(claims));
  t.match(body, { code: 'id_token_refused' });
});

t.test('rotation during many exchanges loses no ID token that the client repeats', async (t) => {
  const issuer = await startIssuer(t);
  const clock = manualClock(new Date());
  const issuerKeys = new IssuerKeys(clock, (url) => fetchJson(url, manualClock()));
  const { origin } = await startApi(t, {
    publishers: [publisherOf(issuer.url)],
    ports: { identity: { issuerKeys } },
  });
  const old = await Promise.all([1, 2, 3].map(() => issuer.sign(claims)));
  t.same(await statuses(old), [200, 200, 200]);
  await issuer.rotate();
  const fresh = await Promise.all([1, 2, 3].map(() => issuer.sign(claims)));
  t.same(
    await statuses(fresh),
    [503, 503, 503],
    'clients that repeat the request can still use their ID tokens',
  );
  await clock.advance(60_000);
  t.same(await statuses(fresh), [200, 200, 200]);
  async function statuses(tokens: string[]): Promise<number[]> {
    return Promise.all(tokens.map(async (token) => (await exchange(origin, token)).status));
  }
});
