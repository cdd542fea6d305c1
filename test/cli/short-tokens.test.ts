import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { github, gitlab } from '../fixtures/id-token-claims.ts';
import { noise } from '../fixtures/noise.ts';
import { startCuttingProxy } from '../services/cutting-proxy.ts';
import { audience, startIssuer } from '../services/issuer.ts';
import { startDaemon } from './daemon.ts';
import { program, waybill } from './process.ts';

/*
 * `waybill push` in jobs of GitHub Actions and GitLab without a stored secret, over a connection on which an
 * upload takes longer than the lifetime of two access tokens. All jobs push at the same time, each on its
 * own connection.
 */

t.setTimeout(0);
const size = 1 << 19;
const lifetimeSeconds = 5;
const slow = size / (2.5 * lifetimeSeconds);
const adminToken = 'the-token-of-the-operator';

const issuer = await startIssuer(t);
const configured = (gitlabLifetime: string): string => {
  const publisher = (id: string, claims: object, lifetime: string): string =>
    `  - {id: ${id}, issuer: "${issuer.url}", audience: "${audience}", claims: ${JSON.stringify(claims)}, pipelines: [site], max_lifetime: ${lifetime}}`;
  return [
    'trusted_publishers:',
    publisher('github-ci', { repository_id: github.repository_id }, `${lifetimeSeconds}s`),
    publisher('gitlab-ci', { project_id: gitlab.project_id, environment: 'long' }, '15m'),
    publisher('gitlab-cut', { project_id: gitlab.project_id, environment: 'short' }, gitlabLifetime),
    'audit: {}',
    'server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}, admin_token_env: ADMIN}',
    'pipelines:',
    '  - {id: site, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}',
  ].join('\n');
};
const place = t.testdir({ 'c.yml': configured(`${lifetimeSeconds}s`) });
const { port } = await startDaemon(t, place, { HOME: place, ADMIN: adminToken });
const line = await startCuttingProxy(t, port);
line.slowTo(slow);

/** Publishes a file of noise in the environment of a job. Each name has another file. */
async function push(
  name: string,
  env: Record<string, string>,
  ...args: string[]
): Promise<{ code: number; stderr: string }> {
  const directory = path.join(place, 'sites', name);
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, 'data.bin'), contentOf(name));
  const to = ['push', directory, '--to', `http://127.0.0.1:${line.port}`, '-p', 'site', '--no-git'];
  const child = spawn(process.execPath, [program, ...to, '--name', name, ...args], {
    cwd: place,
    env: { PATH: process.env['PATH'] ?? '', HOME: place, WAYBILL_AUDIENCE: audience, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(child, 'exit') as Promise<[number]>;
  const stderr = await text(child.stderr);
  return { code: (await ended)[0], stderr };
}

const contentOf = (name: string): Buffer => Buffer.concat([Buffer.from(name), noise(size)]);
const isPublished = (name: string): boolean =>
  readFileSync(path.join(place, 'web', name, 'data.bin')).equals(contentOf(name));

let signed = 0;
const idToken = (claims: object): Promise<string> => issuer.sign({ ...claims, jti: `job-${(signed += 1)}` });

/** The environment of a job of GitHub Actions, which issues an ID token for each request. */
async function githubJob(): Promise<{ env: Record<string, string>; issued: () => number }> {
  let issued = 0;
  const runner = createServer((_req, res) => {
    issued += 1;
    void idToken(github).then((value) => res.end(`{"value":"${value}"}`));
  });
  await once(runner.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => runner.close());
  const env = {
    ACTIONS_ID_TOKEN_REQUEST_URL: `http://127.0.0.1:${(runner.address() as AddressInfo).port}/`,
    ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'a-token-of-the-runner',
  };
  return { env, issued: () => issued };
}

/** The environment of a job of GitLab, which has one ID token. */
async function gitlabJob(environment: string): Promise<Record<string, string>> {
  return { WAYBILL_ID_TOKEN: await idToken({ ...gitlab, environment }) };
}

const sent = Promise.all([
  githubJob().then(async ({ env, issued }) => ({ ...(await push('one', env)), issued: issued() })),
  githubJob().then(async ({ env, issued }) => ({
    ...(await push('several', env, '--resumable', 'always')),
    issued: issued(),
  })),
  githubJob().then(({ env }) => push('never', env, '--resumable', 'never')),
  gitlabJob('long').then((env) => push('long', env)),
  gitlabJob('short').then((env) => push('cut', env, '--resumable', 'always')),
]);

t.test('GitHub Actions: an upload that outlives its tokens continues with new ones', async (t) => {
  const [one, several, never] = await sent;
  for (const [name, { code, stderr, issued }] of Object.entries({ one, several })) {
    t.equal(code, 0, `${name}: ${stderr}`);
    t.ok(isPublished(name), name);
    t.ok(issued >= 3, `${name}: ${issued} ID tokens`);
    t.match(stderr, /trusted publisher github-ci, by GitHub Actions: repo:octo-org\/octo-repo/);
    t.notMatch(stderr, /another client|expired/, 'a renewal is not a failure');
  }
  const expired = /the token "github-ci" has expired\nnext .*`max_lifetime`/;
  t.match(never, { code: 2, stderr: expired }, 'one request cannot be continued');
});

t.test('GitLab: a job has one ID token, so max_lifetime must exceed the upload time', async (t) => {
  const [, , , long, cut] = await sent;
  t.match(long, {
    code: 0,
    stderr: /trusted publisher gitlab-ci, by WAYBILL_ID_TOKEN: project_path:my-group/,
  });
  t.ok(isPublished('long'));
  t.match(cut, { code: 2, stderr: /the token "gitlab-cut" has expired\nnext .*`max_lifetime`/ });
  writeFileSync(path.join(place, 'c.yml'), configured('15m'));
  const headers = { authorization: `Bearer ${adminToken}` };
  const reload = await fetch(`http://127.0.0.1:${port}/v1/reload`, { method: 'POST', headers });
  t.equal(reload.status, 200);
  line.slowTo(Infinity);
  const next = await push('cut', await gitlabJob('short'), '--resumable', 'always');
  t.equal(next.code, 0, next.stderr);
  t.ok(isPublished('cut'));
});

t.test('the audit trail has each exchange, and names the publisher of each upload', (t) => {
  const { stdout } = waybill(['audit', 'show', '-c', 'c.yml', '--limit', '500'], { cwd: place });
  const rows = (form: RegExp): number => stdout.split('\n').filter((row) => form.test(row)).length;
  for (const [publisher, uploads] of Object.entries({ 'github-ci': 2, 'gitlab-ci': 1, 'gitlab-cut': 1 }))
    t.equal(rows(new RegExp(` upload +done +publisher ${publisher} `)), uploads, publisher);
  t.ok(rows(/ token\.exchange +done +publisher github-ci /) >= 6);
  t.equal(rows(/ token\.exchange +(refused|failed) /), 0);
  t.end();
});
