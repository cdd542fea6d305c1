import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import t from 'tap';
import { ciAdvice, ciIdentity } from '../../../src/cli/setup/ci-identity.ts';

const token = 'eyJhbGciOiJSUzI1NiJ9.eyJjYW5hcnkiOjF9.c2lnbmF0dXJl';
const audience = 'https://publish.example.org';

t.test('there is no identity outside of a CI system', (t) => {
  t.equal(ciIdentity({ CI: 'true', WAYBILL_ID_TOKEN: ' ', BUILDKITE: 'true' }), null);
  t.equal(
    ciIdentity({ ACTIONS_ID_TOKEN_REQUEST_URL: 'https://x' }),
    null,
    'one of the two variables is not enough',
  );
  t.equal(ciAdvice({}), undefined);
  t.match(ciAdvice({ GITHUB_ACTIONS: 'true' }), /id-token: write/);
  t.match(ciAdvice({ GITLAB_CI: 'true' }), /id_tokens/);
  t.end();
});

t.test('GitLab and CircleCI have one token, and a file is read each time', async (t) => {
  for (const [variable, name] of [
    ['WAYBILL_ID_TOKEN', 'WAYBILL_ID_TOKEN'],
    ['CIRCLE_OIDC_TOKEN_V2', 'CircleCI'],
  ] as const) {
    const identity = ciIdentity({ [variable]: `${token}\n` });
    t.match(identity, { name, isRenewable: false });
    t.equal(await identity?.idToken(audience), token);
  }
  const file = path.join(t.testdir({ token }), 'token');
  const identity = ciIdentity({ WAYBILL_ID_TOKEN_FILE: file, CIRCLE_OIDC_TOKEN_V2: 'other' });
  t.match(identity, { name: 'WAYBILL_ID_TOKEN_FILE', isRenewable: true });
  t.equal(await identity?.idToken(audience), token);
  writeFileSync(file, `${token}2`);
  t.equal(await identity?.idToken(audience), `${token}2`);
  const gone = async (): Promise<unknown> =>
    ciIdentity({ WAYBILL_ID_TOKEN_FILE: '/nowhere' })?.idToken(audience);
  await t.rejects(gone, { code: 'secrets_invalid', message: /cannot be read: the file does not exist/ });
});

t.test('requests each token from GitHub Actions, with the audience', async (t) => {
  const asked: string[] = [];
  let answer: [status: number, body: string] = [200, JSON.stringify({ value: token })];
  const server = createServer((req, res) => {
    asked.push(`${req.url ?? ''} ${req.headers.authorization ?? ''}`);
    res.writeHead(answer[0], { location: '/elsewhere' }).end(answer[1]);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => server.close());
  const identity = ciIdentity({
    ACTIONS_ID_TOKEN_REQUEST_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/id?api=2`,
    ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'canary-request-token',
  });
  t.match(identity, { name: 'GitHub Actions', isRenewable: true });
  t.equal(await identity?.idToken(audience), token);
  t.same(asked, [`/id?api=2&audience=${encodeURIComponent(audience)} Bearer canary-request-token`]);
  for (const [status, body, reason] of [
    [403, 'canary', /it answered 403/],
    [302, '', /cannot be reached, or did not answer as expected/],
    [200, 'canary', /did not answer as expected/],
    [200, '{"value": "canary"}', /not a signed JWT/],
    [200, '{}', /not a signed JWT/],
  ] as const) {
    answer = [status, body];
    const error = (await identity?.idToken(audience).catch((thrown: unknown) => thrown)) as Error;
    t.match(error, { code: 'secrets_invalid', message: reason });
    t.notMatch(JSON.stringify([error.message, error.stack]), /canary/);
  }
});

t.test('gets tokens from the Buildkite agent', async (t) => {
  const bin = t.testdir({ 'buildkite-agent': `#!/bin/sh\necho "${token}$#"\n[ "$4" = "${audience}" ]\n` });
  chmodSync(path.join(bin, 'buildkite-agent'), 0o755);
  const before = process.env['PATH'];
  t.teardown(() => (process.env['PATH'] = before));
  process.env['PATH'] = `${bin}:${before ?? ''}`;
  const identity = ciIdentity({ BUILDKITE: 'true', BUILDKITE_AGENT_ACCESS_TOKEN: 'canary' });
  t.match(identity, { name: 'Buildkite', isRenewable: true });
  t.equal(await identity?.idToken(audience), `${token}8`);
  await t.rejects(async () => identity?.idToken('other'), {
    code: 'secrets_invalid',
    message: /buildkite-agent oidc request-token. failed/,
  });
});
