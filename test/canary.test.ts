import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, createConnection } from 'node:net';
import path from 'node:path';
import t, { type Test } from 'tap';
import * as tar from 'tar';
import { newRedaction } from '../src/core/lib/log.ts';
import { audience, exchange, exchangeForm } from './api/publishers/exchange.ts';
import { manifest, program } from './cli/process.ts';
import { deadPort, startReceiver } from './core/notify/receiver.ts';
import { startIssuer } from './services/issuer.ts';

/** Uses a canary for every secret, then searches everything that waybill writes for it. */

const canary = 'canary7f3a9c';
const secrets = {
  TOKEN: `token-${canary}-upload`,
  HOOK: `whsec_${Buffer.from(`hook-${canary}-0123456789`).toString('base64')}`,
  PLAIN_HOOK: `plain-${canary}-signing-secret`,
  REDIS: `redis://user:${canary}-redis@127.0.0.1:PORT/0`,
  S3_KEY: `AKIA${canary}`,
  S3_SECRET: `s3-${canary}-secret`,
  SLACK: `http://127.0.0.1:PORT/services/${canary}-slack`,
  SMTP_PASSWORD: `smtp-${canary}-password`,
  PASSPHRASE: `ssh-${canary}-passphrase`,
};
const forms = [
  canary,
  ...Object.values(secrets).flatMap((value) => [value, Buffer.from(value).toString('base64')]),
];

interface Place {
  directory: string;
  env: Record<string, string>;
  events: string[];
}

async function layOut(t: Test): Promise<Place> {
  const events: string[] = [];
  const receiver = await startReceiver(t, (response, attempt, { body, headers, path: at }) => {
    events.push(body, JSON.stringify(headers), at ?? '');
    // Responses of every kind, including those that are logged as warnings.
    response.writeHead([204, 400, 302][attempt % 3] ?? 204, { location: `/${attempt}` }).end();
  });
  const dead = await deadPort();
  const directory = t.testdir({
    source: {
      one: { 'a.txt': 'a', 'manifest.json': manifest(['a.txt']) },
      bad: { 'manifest.json': '{}' },
    },
    key: 'no key at all',
  });
  const hook = (id: string, env: string): string =>
    `{id: ${id}, kind: webhook, url: "${receiver.url}", secret_env: ${env}, events: [bundle.published, bundle.publish_failed, outputs.pruned]}`;
  writeFileSync(
    path.join(directory, 'c.yml'),
    `
audit: {}
upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [up]}]
server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}}
notifiers:
  - ${hook('hook', 'HOOK')}
  - ${hook('plain', 'PLAIN_HOOK')}
  - {id: redis, kind: redis, redis_url_env: REDIS, timeout: 1s}
  - {id: chat, kind: slack, url_env: SLACK}
  - {id: mail, kind: email, host: 127.0.0.1, port: ${dead}, user: u, password_env: SMTP_PASSWORD, from: a@example.org, to: [b@example.org]}
  - {id: file, kind: file, path: ./events.jsonl, events: [bundle.published, bundle.publish_failed]}
  - {id: said, kind: log}
pipelines:
  - id: maps
    source: {backend: local, path: ./source}
    destinations: &all
      - {id: web, backend: local, path: ./web, retention: {prune: {enabled: true, keep_latest: 0}}}
      - {id: cdn, backend: s3, bucket: b, endpoint: "http://127.0.0.1:${dead}", region: x, access_key_id_env: S3_KEY, secret_access_key_env: S3_SECRET}
      - {id: ssh, backend: sftp, host: 127.0.0.1, port: ${dead}, user: u, path: /srv, ssh_key_file: ./key, ssh_key_passphrase_env: PASSPHRASE, known_hosts_file: ./known_hosts}
  - id: up
    source: {backend: http_upload}
    destinations: [{id: up, backend: local, path: ./up}]
`,
  );
  const at = (url: string): string => url.replace('PORT', String(dead));
  const env = { ...secrets, REDIS: at(secrets.REDIS), SLACK: at(secrets.SLACK) };
  return { directory, env, events };
}

async function waybill(
  { directory, env }: Pick<Place, 'directory' | 'env'>,
  args: string[],
  meanwhile?: (stderr: () => string) => Promise<void>,
): Promise<string> {
  const child = spawn(process.execPath, [program, ...args], {
    cwd: directory,
    env: { PATH: process.env['PATH'] ?? '', HOME: directory, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const closed = once(child, 'close');
  if (meanwhile !== undefined) {
    await meanwhile(() => stderr);
    child.kill('SIGTERM');
  }
  await closed;
  return `${stdout}${stderr}`;
}

function clean(t: Test, text: string, what: string): void {
  t.ok(text.length > 0, `${what}: there is output to search`);
  for (const form of forms) if (text.includes(form)) t.fail(`${what} holds a secret`, { form, text });
}

/** Every file that waybill wrote. The configuration is excluded, because it has no secrets. */
function written(directory: string): string {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => path.join(directory, name))
    .filter((name) => statSync(name).isFile())
    .map((name) => `${name}\n${readFileSync(name, 'utf8')}`)
    .join('\n');
}

t.test('no command reveals a secret, whatever fails', async (t) => {
  const place = await layOut(t);
  const on = ['-c', 'c.yml', '-p', 'maps'];
  for (const args of [
    ['config', 'check', '-c', 'c.yml', '--format', 'json'],
    ['inspect', ...on, '--format', 'json', '--verbose'],
    ['validate', ...on, '--format', 'json', '--verbose'],
    ['run', ...on, '--dry-run', '--format', 'json', '--verbose', '-d', 'web'],
    ['run', ...on, '--format', 'json', '--verbose'],
    ['run', ...on, '-d', 'web', '--force'],
    ['verify', ...on, '-d', 'web', '--format', 'json', '--verbose'],
    ['prune', ...on, '-d', 'web', '--apply', '--format', 'json', '--verbose'],
    ['notify', 'test', '-c', 'c.yml', '--format', 'json', '--verbose'],
    ['notify', 'test', '-c', 'c.yml'],
    ['audit', 'show', '-c', 'c.yml', '--format', 'json'],
  ])
    clean(t, await waybill(place, args), args.join(' '));
  clean(t, written(place.directory), 'files on disk');
  t.ok(place.events.length > 0);
  clean(t, place.events.join('\n'), 'the events');
});

t.test('malformed secrets are rejected without being printed', async (t) => {
  const place = await layOut(t);
  for (const [name, value] of [
    ['HOOK', `whsec_${canary}!`],
    ['PLAIN_HOOK', canary],
    ['REDIS', `http://${canary}@host/`],
    ['REDIS', `redis://u:${canary}@bad host:x`],
    ['REDIS', canary],
  ] as const) {
    const broken = { ...place, env: { ...place.env, [name]: value } };
    for (const args of [['run'], ['notify', 'test'], ['serve']]) {
      const ended = await waybill(broken, [...args, '-c', 'c.yml']);
      t.match(ended, new RegExp(name));
      clean(t, ended, `${args.join(' ')} with a bad ${name}`);
    }
  }
});

t.test("reveals no secret in the daemon's log, run records, problems, states and events", async (t) => {
  const place = await layOut(t);
  const answers: string[] = [];
  const log = await waybill(place, ['serve', '-c', 'c.yml', '--verbose'], async (stderr) => {
    const url = await until(() => /"url":"([^"]+)".*"msg":"listening"/.exec(stderr())?.[1]);
    const ask = async (token: string, at: string, body?: Uint8Array<ArrayBuffer>): Promise<Response> => {
      const headers = { authorization: token, 'content-type': 'application/x-tar' };
      const response = await fetch(
        `${url}${at}`,
        body === undefined ? { headers } : { method: 'POST', headers, body },
      );
      answers.push(JSON.stringify([...response.headers]), await response.clone().text());
      return response;
    };
    const right = `Bearer ${secrets.TOKEN}`;
    const upload = 'v1/pipelines/up/upload';
    const accepted = await ask(right, upload, await archive(place.directory));
    const run = accepted.headers.get('location') ?? '';
    await until(async () =>
      (await (await ask(right, run.slice(1))).text()).includes('"finished_at":null') ? undefined : true,
    );
    await ask(right, upload, new Uint8Array(Buffer.from('no tar')));
    await ask(right, 'v1/pipelines/maps/upload', new Uint8Array(1));
    await ask(`${right} and more`, upload, new Uint8Array(1));
    await ask(`Basic ${secrets.TOKEN}`, upload, new Uint8Array(1));
    await ask(right, 'nowhere');
    await fetch(`${url}runs/${secrets.TOKEN}`);
    await ask(right, `v1/pipelines/${secrets.TOKEN}/upload`, new Uint8Array(1));
    for (const token of [secrets.TOKEN, `${secrets.TOKEN}-mistyped`])
      await fetch(`${url}console/login`, {
        method: 'POST',
        redirect: 'manual',
        body: new URLSearchParams({ token }),
      });
    await cutOff(url, secrets.TOKEN);
  });
  t.ok(answers.some((text) => text.includes('"succeeded"')));
  t.match(log, /runs\/\[secret\]/, 'a token in a path is redacted');
  clean(t, log, 'the log');
  clean(t, answers.join('\n'), 'the answers');
  clean(t, written(place.directory), 'files on disk');
  const trail = await waybill(place, ['audit', 'show', '-c', 'c.yml']);
  for (const act of [/upload +done/, /upload +refused/, /login +done/, /login +refused/, /token\.use +done/])
    t.match(trail, act, 'the audit trail has the acts');
  clean(t, trail, 'the audit trail');
  clean(t, place.events.join('\n'), 'the events');
});

t.test(
  'no ID token or access token is in a log, an answer, a record, an event or a process list',
  async (t) => {
    const issuer = await startIssuer(t);
    const hidden: string[] = [];
    const signed = async (): Promise<string> => {
      const token = await issuer.sign({ repository_id: '12345', sub: 'repo:octo-org/site' });
      hidden.push(...token.split('.').slice(1));
      return token;
    };
    const processes: string[] = [];
    const github = createServer((_req, res) => {
      // The push is waiting for its ID token now.
      processes.push(...commandLines());
      void signed().then((value) => res.end(JSON.stringify({ value })));
    });
    await once(github.listen(0, '127.0.0.1'), 'listening');
    t.teardown(() => github.close());
    const place = await layOut(t);
    const config = readFileSync(path.join(place.directory, 'c.yml'), 'utf8');
    const publisher = `{id: site-ci, issuer: "${issuer.url}", audience: "${audience}", claims: {repository_id: "12345"}, pipelines: [up]}`;
    writeFileSync(path.join(place.directory, 'c.yml'), `${config}trusted_publishers: [${publisher}]\n`);
    const answers: string[] = [];
    const pushed: string[] = [];
    const log = await waybill(place, ['serve', '-c', 'c.yml', '--verbose'], async (stderr) => {
      const url = await until(() => /"url":"([^"]+)".*"msg":"listening"/.exec(stderr())?.[1]);
      const ask = async (at: string, init: RequestInit): Promise<string> => {
        const text = await (await fetch(`${url}${at}`, init)).text();
        answers.push(text);
        return text;
      };
      const idToken = await signed();
      const { body } = await exchange(url.slice(0, -1), idToken);
      const token = String(body['access_token']);
      hidden.push(...token.split('.').slice(1));
      for (const again of [idToken, token, `${idToken}x`])
        await ask('v1/token', {
          method: 'POST',
          body: new URLSearchParams({ ...exchangeForm, subject_token: again }),
        });
      for (const bearer of [token, idToken, `${token}x`]) {
        const headers = { authorization: `Bearer ${bearer}`, 'content-type': 'application/x-tar' };
        await ask('v1/pipelines/up/upload', { method: 'POST', headers, body: 'no tar' });
        await ask(`runs/${bearer}`, { headers });
        await ask('v1/runs', { headers });
      }
      const address = `http://127.0.0.1:${(github.address() as AddressInfo).port}/`;
      const env = {
        WAYBILL_AUDIENCE: audience,
        ACTIONS_ID_TOKEN_REQUEST_URL: address,
        ACTIONS_ID_TOKEN_REQUEST_TOKEN: `${canary}-request`,
      };
      const args = ['push', 'source/one', '--to', url, '--pipeline', 'up', '--no-git'];
      for (const more of [[], ['--again', '--format', 'json']])
        pushed.push(await waybill({ ...place, env }, [...args, ...more]));
    });
    t.match(pushed[0], /trusted publisher site-ci, by GitHub Actions: repo:octo-org\/site/);
    t.match(pushed[1], /"published_by":\s*\{\s*"publisher_id":\s*"site-ci"/);
    t.match(log, /"token_id":"site-ci"/);
    t.ok(
      processes.some((line) => line.includes('push')),
      'the process list has the push',
    );
    const found = { log, processes, answers, pushed, disk: written(place.directory), events: place.events };
    for (const [what, texts] of Object.entries(found)) {
      const text = [texts].flat().join('\n');
      clean(t, text, what);
      for (const secret of hidden) if (text.includes(secret)) t.fail(`${what} has a token`, { text });
    }
  },
);

/** The command lines of all processes. */
function commandLines(): string[] {
  const ids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return ids.map((id) => {
    try {
      return readFileSync(`/proc/${id}/cmdline`, 'utf8').replaceAll('\0', ' ');
    } catch {
      return '';
    }
  });
}

t.test('redacts a signed JWT in the log, whatever its issuer', (t) => {
  const redaction = newRedaction();
  const token = 'eyJhbGciOiJSUzI1NiJ9.eyJjYW5hcnkiOjF9.c2lnbmF0dXJl';
  t.equal(
    redaction.clean(`{"url":"/runs/${token}?x","other":"eyJ"}`),
    '{"url":"/runs/[secret]?x","other":"eyJ"}',
  );
  t.end();
});

t.test('text from libraries is redacted in the log', async (t) => {
  const redaction = newRedaction();
  redaction.add(['redis://u:p%40ss-word@h:1/', 'a"quoted\nsecret', 'short', '$(regular).expr*']);
  t.equal(
    redaction.clean('at redis://u:p%40ss-word@h:1/ with p%40ss-word or p@ss-word'),
    'at [secret] with [secret] or [secret]',
  );
  t.equal(redaction.clean(JSON.stringify({ x: 'a"quoted\nsecret' })), '{"x":"[secret]"}');
  t.equal(redaction.clean('$(regular).expr* and short words'), '[secret] and short words');
});

async function until<T>(look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (;;) {
    const seen = await look();
    if (seen !== undefined) return seen;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function archive(directory: string): Promise<Uint8Array<ArrayBuffer>> {
  const cwd = path.join(directory, 'bundle');
  mkdirSync(cwd);
  writeFileSync(path.join(cwd, 'manifest.json'), manifest(['a.txt']));
  writeFileSync(path.join(cwd, 'a.txt'), 'a');
  const chunks: Buffer[] = [];
  for await (const chunk of tar.create({ cwd }, ['manifest.json', 'a.txt'])) chunks.push(chunk);
  return new Uint8Array(Buffer.concat(chunks));
}

/** A client that disconnects during its upload. */
async function cutOff(url: string, token: string): Promise<void> {
  const { hostname, port } = new URL(url);
  const socket = createConnection({ host: hostname, port: Number(port) });
  const head = `POST /v1/pipelines/up/upload HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-type: application/x-tar\r\ncontent-length: 9999\r\n\r\n`;
  await new Promise<void>((resolve) => socket.write(head, () => resolve()));
  const closed = once(socket, 'close');
  socket.destroy();
  await closed;
}
