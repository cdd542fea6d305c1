import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { serve } from '../src/cli/daemon/serve.ts';
import { type Log, newRedaction } from '../src/core/lib/log.ts';
import { newSecretKey, secretKeyFile } from '../src/core/signing/secret-key.ts';
import { HttpBrowser } from './api/console/login.ts';
import { audience, exchange } from './api/publishers/exchange.ts';
import { startReceiver } from './core/notify/receiver.ts';
import { bundleTar } from './fixtures/tar.ts';
import { startCollector } from './services/collector.ts';
import { startIssuer } from './services/issuer.ts';

/*
 * Uses canaries as the secrets of a console login, of signed outputs and of access tokens. Log lines are
 * searched before the logger redacts the secrets of the configuration.
 */

const canary = 'canary4b8e21';
const secret = (name: string): string => `${canary}-${name}-${'0'.repeat(32)}`;
const env = {
  CLIENT_SECRET: secret('client'),
  SESSION_KEY: secret('session'),
  TOKEN_KEYS: secret('keys'),
  ADMIN: secret('admin'),
  HOOK: secret('hook'),
};

t.test('no secret of a login, a signing key or an access token appears anywhere', async (t) => {
  const issuer = await startIssuer(t);
  const collector = await startCollector(t);
  const receiver = await startReceiver(t);
  const signingKey = await secretKeyFile(newSecretKey(), null);
  const place = t.testdir({});
  const configFile = path.join(place, 'c.yml');
  writeFileSync(
    configFile,
    `audit: {}
tracing: {endpoint: "${collector.url}"}
trusted_publishers: [{id: site-ci, issuer: "${issuer.url}", audience: "${audience}", claims: {repository_id: "12345"}, pipelines: [up]}]
notifiers: [{id: hook, kind: webhook, url: "${receiver.url}", secret_env: HOOK}]
server:
  http: {listen: "127.0.0.1:0"}
  admin_token_env: ADMIN
  token_keys_env: TOKEN_KEYS
  staging: {directory: ./staging}
  console:
    session_key_env: SESSION_KEY
    login: {issuer: "${issuer.url}", client_id: waybill, client_secret_env: CLIENT_SECRET, public_url: "http://127.0.0.1:1/", roles: [{role: admin, claims: {groups: admins}}]}
pipelines:
  - id: up
    source: {backend: http_upload}
    destinations: [{id: web, backend: local, path: ./web, workflow: replacement, outputs: {signature: {key_env: SIGNING_KEY}}}]
`,
  );
  const lines: unknown[] = [];
  const note = (fields: object, message: string): void => {
    const values = Object.values(fields as Record<string, unknown>);
    lines.push(message, ...values.map((one) => (one instanceof Error ? one.stack : one)));
  };
  const log: Log = { debug: note, info: note, warn: note, error: note };
  const started = { configFile, log, env: { ...env, SIGNING_KEY: signingKey, HOME: place } };
  const served = await serve(started);
  t.teardown(() => served.close());
  const origin = served.url.slice(0, -1);
  const answers: string[] = [];
  const hidden = [canary, ...signingKey.split('\n').filter((line) => /^[\w+/=]{60,}$/.test(line))];
  const noted = async (response: Response): Promise<Response> => {
    answers.push(JSON.stringify([...response.headers]), await response.clone().text());
    return response;
  };

  const logIn = async (answer: 'accepted' | 'refused' | 'wrong'): Promise<HttpBrowser> => {
    const browser = new HttpBrowser();
    const begun = await noted(await browser.send(`${origin}/console/login/start`));
    const query = new URL(begun.headers.get('location') ?? '').searchParams;
    const nonce = query.get('nonce') ?? '';
    const claims = { aud: 'waybill', sub: 'ada', groups: 'admins', nonce };
    const idToken = await issuer.sign({ ...claims, ...(answer === 'wrong' ? { nonce: 'x' } : {}) });
    hidden.push(...idToken.split('.').slice(1));
    issuer.answerToken = (_req, res) => {
      if (answer === 'refused')
        res.writeHead(400).end(JSON.stringify({ error: 'invalid_grant', error_description: canary }));
      else
        res.end(
          JSON.stringify({
            ...{ id_token: idToken, token_type: 'Bearer' },
            ...{ access_token: secret('access'), refresh_token: secret('refresh') },
          }),
        );
    };
    const answered = new URLSearchParams({ code: secret('code'), state: query.get('state') ?? '' });
    const page = await noted(await browser.send(`${origin}/console/login/callback?${answered.toString()}`));
    t.equal(browser.cookies.has('waybill_session'), answer === 'accepted', `${answer}: ${await page.text()}`);
    return browser;
  };
  const browser = await logIn('accepted');
  for (const page of ['', '/admin', '/audit', '/account', '/runs', '/nowhere'])
    t.match(
      await noted(await browser.send(`${origin}/console${page}`)),
      { status: page === '/nowhere' ? 404 : 200 },
      page,
    );
  for (const answer of ['refused', 'wrong'] as const) await logIn(answer);
  await noted(await browser.send(`${origin}/console/login`, { token: secret('mistyped') }));

  const { body } = await exchange(origin, await issuer.sign({ repository_id: '12345' }));
  const token = String(body['access_token']);
  hidden.push(...token.split('.').slice(1));
  const send = (bytes: Uint8Array<ArrayBuffer>): Promise<Response> =>
    fetch(`${origin}/v1/pipelines/up/upload`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar' },
      body: bytes,
    });
  await noted(await send(new Uint8Array(8)));
  const accepted = (await (
    await noted(await send(new Uint8Array(bundleTar({ a: 'A' }, { name: 'n' }))))
  ).json()) as {
    run_id: string;
  };
  const run = await noted(await fetch(`${origin}/runs/${accepted.run_id}?wait=60`));
  t.match(await run.json(), { status: 'succeeded' });
  await collector.until('run');
  while (receiver.received.length === 0) await new Promise((resolve) => setImmediate(resolve));
  for (const route of [
    'metrics',
    'healthz',
    'v1/runs',
    'v1/audit',
    `runs/${token}`,
    `nowhere?code=${secret('code')}`,
  ])
    await noted(await fetch(`${origin}/${route}`, { headers: { authorization: `Bearer ${env.ADMIN}` } }));
  await served.close();

  const disk = readdirSync(place, { recursive: true, encoding: 'utf8' })
    .map((name) => path.join(place, name))
    .filter((name) => statSync(name).isFile() && name !== configFile)
    .map((name) => `${name}\n${readFileSync(name, 'latin1')}`);
  t.ok(
    disk.some((text) => text.includes('attestation.json')),
    'the outputs are signed',
  );
  const trail = disk.filter((text) => text.includes('"act":"login"')).join('\n');
  for (const form of [/"type":"user"/, /"result":"refused"/, /"act":"token\.exchange"/]) t.match(trail, form);
  const found = {
    ...{ answers, disk },
    // The logger redacts every JWT, such as one that a client sent in a path.
    lines: newRedaction().clean(JSON.stringify(lines)),
    traces: [collector.spans, collector.requests],
    events: receiver.received.map(({ body, path: at }) => [body, at]),
  };
  for (const [name, parts] of Object.entries(found)) {
    const text = JSON.stringify(parts, (_key, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value,
    );
    t.ok(text.length > 100, `${name}: there is output to search`);
    t.same(
      hidden.filter((one) => text.includes(one)),
      [],
      name,
    );
  }
});
