import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import path from 'node:path';
import { json, text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { reloadDaemon } from '../../../src/cli/commands/daemon/reload.ts';
import { type RunningServer, serve } from '../../../src/cli/daemon/serve.ts';
import { startWorker } from '../../../src/cli/daemon/worker.ts';
import { makeOutput } from '../../../src/cli/output/output.ts';
import { urlOf } from '../../../src/cli/setup/operator.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { type Log, type LogControl, logControl, silentLog } from '../../../src/core/lib/log.ts';
import type { RunRecord } from '../../../src/workers/queue/run-record.ts';
import { acceptedId, adminToken, bundle, follow, launchApi, layOut, token } from '../../hosts/processes.ts';
import { startRedis } from '../../services/redis.ts';
import { howMany, share } from '../../support/sampling.ts';
import { document, type Ended, program } from '../process.ts';

t.setTimeout(0);

interface Settings {
  /** Pipeline ids, each with the directory that it publishes to. */
  pipelines: Record<string, string>;
  /** For each token id: the variable of its value, and its pipelines. */
  tokens?: Record<string, [string, string[]]>;
  queue?: string;
  /** Additional settings, unchanged. */
  more?: string;
  http?: string;
}

function yamlOf({ pipelines, tokens, queue = '{driver: memory}', more = '', http = '' }: Settings): string {
  const known = tokens ?? { ci: ['TOKEN_CI', Object.keys(pipelines)] };
  return `
upload_tokens: [${Object.entries(known)
    .map(([id, [value, ids]]) => `{id: ${id}, value_env: ${value}, pipelines: [${ids.join(', ')}]}`)
    .join(', ')}]
secrets: {directory: ./secrets}
server:
  http: {listen: '127.0.0.1:0', ${http}}
  admin_token_env: TOKEN_ADMIN
  staging: {directory: ./staging}
  queue: ${queue}
${more}
pipelines: [${Object.entries(pipelines)
    .map(
      ([id, to]) =>
        `{id: ${id}, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./${to}}]}`,
    )
    .join(', ')}]
`;
}

interface Line {
  level: keyof Log;
  fields: Record<string, unknown>;
  message: string;
}

interface Daemon {
  served: RunningServer;
  root: string;
  config: string;
  write: (settings: Settings) => void;
  lines: Line[];
  logging: LogControl;
}

const secrets = { TOKEN_CI: 'the-token-of-ci-on-this-host', TOKEN_ADMIN: adminToken };

async function start(t: Test, settings: Settings, env: Record<string, string> = {}): Promise<Daemon> {
  const root = t.testdir({ secrets });
  const config = path.join(root, 'waybill.yml');
  const write = (next: Settings): void => writeFileSync(config, yamlOf(next));
  write(settings);
  const lines: Line[] = [];
  const note =
    (level: keyof Log) =>
    (fields: object, message: string): void =>
      void lines.push({ level, fields: { ...fields }, message });
  const log: Log = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') };
  const logging = logControl();
  const served = await serve({ configFile: config, log, logging, env: { HOME: root, ...env } });
  t.teardown(() => served.close());
  return { served, root, config, write, lines, logging };
}

function post(served: RunningServer, route: string, token = adminToken): Promise<Response> {
  return fetch(`${served.url}v1/${route}`, { method: 'POST', headers: { authorization: `Bearer ${token}` } });
}

async function reload(served: RunningServer): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await post(served, 'reload');
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

function upload(
  served: RunningServer,
  pipeline: string,
  name: string,
  token = 'the-token-of-ci-on-this-host',
): Promise<Response> {
  return fetch(`${served.url}v1/pipelines/${pipeline}/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar' },
    body: new Uint8Array(bundle(name, 100)),
  });
}

async function published(
  served: RunningServer,
  pipeline: string,
  name: string,
  token?: string,
): Promise<RunRecord> {
  return follow(served.url, await acceptedId(await upload(served, pipeline, name, token)));
}

async function metric(served: RunningServer, name: string): Promise<number> {
  const text = await (await fetch(`${served.url}metrics`)).text();
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1]);
}

const successful = 'waybill_config_last_reload_successful';
const succeededAt = 'waybill_config_last_reload_success_timestamp_seconds';

t.test('a reload applies tokens, pipelines, notifiers, secrets and the log level', async (t) => {
  const { served, root, config, write, lines, logging } = await start(t, { pipelines: { maps: 'public' } });
  t.equal(await metric(served, successful), 1, 'the start counts as the first time');
  const began = await metric(served, succeededAt);
  t.match(await reload(served), {
    status: 200,
    body: {
      added: { length: 0 },
      changed: { length: 0 },
      removed: { length: 0 },
      restart_needed: { length: 0 },
      warnings: { length: 0 },
    },
  });

  writeFileSync(path.join(root, 'secrets/TOKEN_NEXT'), 'the-next-token-of-this-test\n');
  writeFileSync(path.join(root, 'secrets/TOKEN_ADMIN'), 'the-next-token-of-the-operator');
  write({
    pipelines: { maps: 'mirror', docs: 'public-docs' },
    tokens: { next: ['TOKEN_NEXT', ['maps', 'docs']] },
    http: 'queue_size: 5',
    more: [
      'log: {level: warn, requests: none}',
      'notifiers: [{id: file, kind: file, path: ./events.jsonl, events: [bundle.published]}]',
    ].join('\n'),
  });
  t.same(await reload(served), {
    status: 200,
    body: {
      added: ['upload_tokens.next', 'pipelines.docs', 'notifiers.file'],
      changed: ['log', 'pipelines.maps'],
      removed: ['upload_tokens.ci'],
      restart_needed: ['server.http.queue_size'],
      warnings: [],
    },
  });
  t.ok((await metric(served, succeededAt)) >= began);
  t.match(
    lines.find(({ message }) => message === 'configuration reloaded' && message),
    {
      fields: { added: { length: 0 } },
    },
  );
  t.match(
    lines.find(({ level }) => level === 'warn'),
    { fields: { settings: ['server.http.queue_size'] } },
  );
  const logged = lines.length;
  t.equal((await upload(served, 'maps', 'one')).status, 401, 'the token is removed');
  t.match(await published(served, 'docs', 'two', 'the-next-token-of-this-test'), { status: 'succeeded' });
  t.match(await published(served, 'maps', 'three', 'the-next-token-of-this-test'), { status: 'succeeded' });
  t.ok(existsSync(path.join(root, 'public-docs/two/data.bin')));
  t.ok(existsSync(path.join(root, 'mirror/three/data.bin')));
  t.notOk(existsSync(path.join(root, 'public')));
  t.equal(logging.requests, 'none');
  t.notOk(logging.shows('info'));
  t.notOk(lines.slice(logged).some(({ message }) => message === 'request'));
  t.equal((await post(served, 'reload')).status, 401, 'the previous token of the operator');
  const events = path.join(root, 'events.jsonl');
  const count = (): number =>
    existsSync(events) ? readFileSync(events, 'utf8').trim().split('\n').length : 0;
  while (count() < 2) await new Promise((resolve) => setImmediate(resolve));
  t.match(
    await (await fetch(`${served.url}metrics`)).text(),
    /waybill_runs_total\{pipeline="docs",status="failed"\} 0/,
  );
  t.ok(existsSync(config));
});

t.test('a reload with errors changes nothing, and reports all of them', async (t) => {
  const { served, root, config, write, lines } = await start(t, { pipelines: { maps: 'public' } });
  const began = await metric(served, succeededAt);
  appendFileSync(config, 'servr: {}\nlog: {level: loud, requests: some}\n');
  const refused = await reload(served);
  t.match(refused, { status: 422, body: { code: 'reload_refused', retryable: false } });
  t.match(refused.body['detail'], /^nothing was changed: the configuration .* has 3 errors/);
  t.match(refused.body['findings'], [
    { pointer: 'servr' },
    { pointer: 'log.level' },
    { pointer: 'log.requests' },
  ]);
  t.match(
    lines.find(({ message }) => message.startsWith('reload failed; the current configuration stays active')),
    { level: 'error', fields: { findings: [/servr/, /log\.level/, /log\.requests/] } },
  );
  t.equal(await metric(served, successful), 0);
  t.equal(await metric(served, succeededAt), began);

  write({
    pipelines: { maps: 'mirror' },
    tokens: { a: ['TOKEN_A', ['maps']], b: ['TOKEN_B', ['maps']] },
    more: 'notifiers: [{id: hook, kind: webhook, url: "https://example.org/", secret_env: HOOK, events: [bundle.published]}]',
  });
  const missing = await reload(served);
  t.match(missing, { status: 422, body: { code: 'reload_refused' } });
  for (const name of ['TOKEN_A', 'TOKEN_B', 'HOOK'])
    t.match(String(missing.body['detail']), new RegExp(name));
  t.equal((missing.body['findings'] as unknown[]).length, 3);

  writeFileSync(path.join(root, 'secrets/TOKEN_A'), 'one-value-for-both-tokens');
  writeFileSync(path.join(root, 'secrets/TOKEN_B'), 'one-value-for-both-tokens');
  writeFileSync(path.join(root, 'secrets/HOOK'), `whsec_${Buffer.alloc(32, 'x').toString('base64')}`);
  t.match(await reload(served), { status: 422, body: { detail: /have the same value/ } });

  t.match(await published(served, 'maps', 'one'), { status: 'succeeded' });
  t.ok(existsSync(path.join(root, 'public/one/data.bin')), 'everything is unchanged');
  write({ pipelines: { maps: 'public' } });
  t.match(await reload(served), { status: 200, body: { changed: { length: 0 }, removed: { length: 0 } } });
  t.equal(await metric(served, successful), 1);
});

t.test('runs concurrent reloads one after another, each with its own response', async (t) => {
  const { served, write, lines } = await start(t, { pipelines: { maps: 'public' } });
  const first = served.reload();
  write({ pipelines: { maps: 'public', docs: 'docs' } });
  const reports = await Promise.all([1, 2, 3, 4].map(() => served.reload()));
  await first;
  for (const report of reports) t.equal(report, reports[0], 'waiting requests share the next reload');
  t.equal(lines.filter(({ message }) => message === 'configuration reloaded').length, 2);
  t.equal((await upload(served, 'docs', 'one')).status, 202);
  const closing = served.close();
  await t.rejects(served.reload(), { code: 'shutting_down' });
  await closing;
});

for (const driver of ['memory', 'embedded', 'bullmq'])
  t.test(`runs of a pipeline that a reload removes are still published (${driver})`, async (t) => {
    const redis = driver === 'bullmq' ? await startRedis() : null;
    t.teardown(() => redis?.close());
    const queue = {
      memory: '{driver: memory}',
      embedded: '{driver: embedded, directory: ./queue}',
      bullmq: '{driver: bullmq, redis_url_env: REDIS_URL}',
    }[driver] as string;
    const env: Record<string, string> = redis === null ? {} : { REDIS_URL: redis.url };
    const { served, root, write } = await start(t, { queue, pipelines: { maps: 'public' } }, env);
    t.equal((await post(served, 'pipelines/maps/pause')).status, 200);
    const left = await acceptedId(await upload(served, 'maps', 'one'));
    write({ queue, pipelines: { docs: 'docs' } });
    t.match(await reload(served), {
      status: 200,
      body: { added: ['pipelines.docs'], removed: ['pipelines.maps'] },
    });
    t.equal((await upload(served, 'maps', 'two')).status, 404, 'it accepts no more requests');
    t.match(
      await published(served, 'docs', 'three'),
      { status: 'succeeded' },
      'a new run begins immediately',
    );
    t.equal((await post(served, 'pipelines/maps/resume')).status, 200);
    t.match(await follow(served.url, left), { status: 'succeeded', pipeline_id: 'maps' });
    t.ok(existsSync(path.join(root, 'public/one/data.bin')), 'at its original destination');
    t.equal((await post(served, 'pipelines/maps/resume')).status, 404);

    t.equal((await post(served, 'pipelines/docs/pause')).status, 200);
    const waiting = await acceptedId(await upload(served, 'docs', 'four'));
    write({ queue, pipelines: { docs: 'elsewhere' } });
    t.match(await reload(served), { status: 200, body: { changed: ['pipelines.docs'] } });
    t.equal((await post(served, 'pipelines/docs/resume')).status, 200);
    t.match(await follow(served.url, waiting), { status: 'succeeded' });
    t.ok(existsSync(path.join(root, 'elsewhere/four/data.bin')), 'a waiting run uses the new settings');
  });

t.test('a destination added by a reload takes its last publication time from its catalog', async (t) => {
  const both = { docs: 'docs', maps: 'public' };
  const { served, root, config, write } = await start(t, { pipelines: both });
  t.match(await published(served, 'maps', 'one'), { status: 'succeeded' });
  await served.close();
  write({ pipelines: { docs: 'docs' } });
  const again = await serve({ configFile: config, log: silentLog, env: { HOME: root } });
  t.teardown(() => again.close());
  const lastSuccess = (): Promise<number> => metric(again, 'waybill_last_success_timestamp_seconds');
  t.ok(Number.isNaN(await lastSuccess()));
  write({ pipelines: both });
  t.match(await reload(again), { status: 200, body: { added: ['pipelines.maps'] } });
  while (Number.isNaN(await lastSuccess())) await new Promise((resolve) => setImmediate(resolve));
  const { updated_at: at } = JSON.parse(
    readFileSync(path.join(root, 'public/one/.publisher.json'), 'utf8'),
  ) as { updated_at: string };
  t.equal(await lastSuccess(), Date.parse(at) / 1000);
});

t.test('a reload adds, changes and removes schedules immediately', async (t) => {
  const { served, root, config } = await start(t, { pipelines: { maps: 'public' } });
  const write = (schedule: string): void =>
    writeFileSync(
      config,
      `${yamlOf({ pipelines: {}, tokens: { ci: ['TOKEN_CI', ['nightly']] } }).replace('pipelines: []', '')}
pipelines: [{id: nightly, source: {backend: local, path: ./in}, ${schedule}
  destinations: [{id: web, backend: local, path: ./out}]}]
`,
    );
  mkdirSync(path.join(root, 'in'));
  const next = async (): Promise<unknown> => {
    const headers = { authorization: 'Bearer the-token-of-ci-on-this-host' };
    const answer = await fetch(`${served.url}v1/pipelines`, { headers });
    return ((await answer.json()) as { pipelines: unknown[] }).pipelines;
  };
  for (const [schedule, expected] of [
    ["schedule: '15 3 1 2 *',", { schedule: { cron: '15 3 1 2 *' }, next_run: /-02-01T03:15:00/ }],
    ["schedule: '15 3 1 9 *',", { schedule: { cron: '15 3 1 9 *' }, next_run: /-09-01T03:15:00/ }],
    ["schedule: '15 3 1 9 *', timezone: Asia/Tokyo,", { next_run: /-08-31T18:15:00/ }],
    ['', { schedule: null, next_run: null }],
    ["schedule: '@yearly',", { schedule: { cron: '@yearly' }, next_run: /-01-01T00:00:00/ }],
  ] as const) {
    write(schedule);
    t.equal((await reload(served)).status, 200, schedule);
    t.match(await next(), [{ pipeline_id: 'nightly', ...expected }], schedule);
  }
});

/** Runs the command asynchronously, because the daemon runs in this test process. */
async function command(args: readonly string[], env: Record<string, string>): Promise<Ended> {
  const child = spawn(process.execPath, [program, 'reload', ...args], {
    env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null]>,
  ]);
  return { status, stdout, stderr };
}

t.test('waybill reload requests a reload, and its exit code reports the result', async (t) => {
  const { served, config, write } = await start(t, { pipelines: { maps: 'public' } });
  const env = { TOKEN_ADMIN: adminToken };
  const url = ['--url', served.url.slice(0, -1)];
  write({ pipelines: { maps: 'public', docs: 'docs' }, http: 'queue_size: 7' });
  const done = await command(['--config', config, ...url, '--format', 'json'], env);
  t.equal(done.status, 0, done.stderr);
  t.match(document(t, done), {
    kind: 'reload',
    url: served.url,
    added: ['pipelines.docs'],
    changed: ['upload_tokens.ci'],
    restart_needed: ['server.http.queue_size'],
  });
  const plain = await command(['--config', config, ...url], env);
  t.equal(plain.status, 0);
  t.equal(plain.stdout, `reloaded  ${served.url}\nrestart needed  server.http.queue_size\n`);

  // The daemon's own file is another one, which is invalid.
  const other = path.join(path.dirname(config), 'other.yml');
  writeFileSync(other, readFileSync(config));
  appendFileSync(config, 'servr: {}\nlog: {level: loud}\n');
  const refused = await command(['--config', other, ...url], env);
  t.equal(refused.status, 2);
  t.match(refused.stderr, /error {2}nothing was changed: .* 2 errors[\s\S]*servr[\s\S]*log\.level/);
  const here = await command(['--config', config, ...url], env);
  t.equal(here.status, 2, 'the file is checked here first');
  t.match(here.stderr, /has 2 errors/);

  const before = process.env['TOKEN_ADMIN'];
  t.teardown(() => {
    if (before === undefined) delete process.env['TOKEN_ADMIN'];
    else process.env['TOKEN_ADMIN'] = before;
  });
  const stranger = http.createServer((_req, res) => res.end('hello')).listen(0, '127.0.0.1');
  t.teardown(() => stranger.close());
  await once(stranger, 'listening');
  const strange = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}/`;
  const digest = `sha256:${'0'.repeat(64)}`;
  for (const [code, message, given, value] of [
    [
      'daemon_unreachable',
      /^no daemon answers at http:\/\/127\.0\.0\.1:9\//,
      'http://127.0.0.1:9',
      adminToken,
    ],
    ['daemon_unreachable', /it answered 200, which is not an answer of a daemon/, strange, adminToken],
    ['not_found', /^there is nothing under this path/, `${served.url}base`, adminToken],
    ['unauthorized', /^the bearer token is not known/, served.url, 'guess'],
    ['forbidden', /^this needs the admin token/, served.url, 'the-token-of-ci-on-this-host'],
    ['usage', /selects any free port/, undefined, adminToken],
    ['usage', /^--url ftp:\/\/x: this is not the URL/, 'ftp://x', adminToken],
    ['secrets_invalid', /holds the SHA-256 of the token/, served.url, digest],
  ] as const) {
    process.env['TOKEN_ADMIN'] = value;
    const options = { config: other, format: 'text', color: false } as const;
    const output = makeOutput({ json: false, color: false });
    const asked = reloadDaemon(given === undefined ? options : { ...options, url: given }, { output });
    await t.rejects(asked, { code, message }, given ?? 'without --url');
  }
  t.equal(urlOf({ host: '0.0.0.0', port: 80, basePath: '/x/' }), 'http://127.0.0.1:80/x/');
  t.equal(urlOf({ host: '::', port: 80, basePath: '/' }), 'http://[::1]:80/');
  t.equal(urlOf({ host: 'fd00::1', port: 8080, basePath: '/' }), 'http://[fd00::1]:8080/');
});

const reloadsOfAll = 100;
const reloads = howMany(reloadsOfAll, 6);
const uploadsBesideEach = 5;
/** Fifty a second. */
const betweenUploadsMs = 20;
const connections = 10;

t.test(
  `${share(reloads, reloadsOfAll)} reloads under 50 uploads a second drop no connection and lose no run`,
  async (t) => {
    const place = layOut(t, { pipelines: 4, http: 'max_concurrency: 4' });
    const right = readFileSync(place.config, 'utf8').replace('queue_size: 200', 'queue_size: 10000');
    writeFileSync(place.config, right);
    const daemon = await launchApi(t, place, ['serve']);
    // In turns, so that the daemon closes none for inactivity.
    const agent = new http.Agent({ keepAlive: true, maxSockets: connections, scheduling: 'fifo' });
    t.teardown(() => agent.destroy());
    const seen = new Set<Socket>();
    let dropped = 0;
    const send = (index: number): Promise<string> =>
      new Promise((resolve, reject) => {
        const pipeline = place.pipelines[index % place.pipelines.length] as string;
        const request = http.request(`${daemon.url}v1/pipelines/${pipeline}/upload`, {
          agent,
          method: 'POST',
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar' },
        });
        request.on('socket', (socket) => {
          if (!seen.has(socket)) socket.once('close', () => (dropped += 1));
          seen.add(socket);
        });
        request.on('error', reject).on('response', (response) => {
          json(response).then((answer) => {
            const { run_id: runId } = answer as { run_id?: string };
            if (response.statusCode === 202 && runId !== undefined) resolve(runId);
            else reject(new Error(`${response.statusCode} ${JSON.stringify(answer)}`));
          }, reject);
        });
        request.end(bundle(`upload-${index}`, 1_000));
      });
    const ask = async (): Promise<number> => {
      const headers = { authorization: `Bearer ${adminToken}` };
      const response = await fetch(`${daemon.url}v1/reload`, { method: 'POST', headers });
      await response.arrayBuffer();
      return response.status;
    };
    const uploads: Promise<string>[] = [];
    // A rate without a deadline: a slower machine sends later.
    const uploadForAWhile = async (): Promise<void> => {
      for (let index = 0; index < uploadsBesideEach; index += 1) {
        const upload = send(uploads.length);
        upload.catch(() => undefined); // All of them are awaited at the end.
        uploads.push(upload);
        await systemClock.sleep(betweenUploadsMs);
      }
    };
    for (let round = 0; round < reloads; round += 1) {
      const sending = uploadForAWhile();
      const isWrong = round % 5 === 3;
      // The destinations move, and one pipeline is added and removed.
      const moved = right.replaceAll('./public/', `./public/${round}/`);
      const more = `  - {id: extra-${round}, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./extra}]}\n`;
      writeFileSync(place.config, isWrong ? 'pipelines: no list' : moved + (round % 2 === 0 ? more : ''));
      if (round % 3 === 0) {
        const lines = daemon.lines.length;
        daemon.child.kill('SIGHUP');
        const outcome = /^configuration reloaded$|^reload failed/;
        await daemon.until((line) => outcome.test(line.msg) && daemon.lines.indexOf(line) >= lines);
      } else t.equal(await ask(), isWrong ? 422 : 200);
      await sending;
    }
    const runs = await Promise.all(uploads);
    const records = await Promise.all(runs.map((runId) => follow(daemon.url, runId)));
    t.same(new Set(records.map(({ status }) => status)), new Set(['succeeded']));
    t.equal(new Set(runs).size, reloads * uploadsBesideEach);
    t.ok(seen.size <= connections, 'no new connections are opened');
    t.equal(dropped, 0);
    t.equal(await daemon.kill('SIGTERM'), 0);
  },
);

t.test(
  'separate API and worker processes each reload the file, and a run of a new pipeline begins',
  async (t) => {
    const redis = await startRedis();
    t.teardown(() => redis.close());
    const place = layOut(t, { redisUrl: redis.url, http: 'max_concurrency: 1' });
    const options = { configFile: place.config, log: silentLog, env: { HOME: place.root, ...place.env } };
    const api = await serve({ ...options, workers: false });
    t.teardown(() => api.close());
    const phases: string[] = [];
    const listen = { host: '127.0.0.1', port: 0 };
    const logging = logControl();
    const worker = await startWorker({
      ...options,
      logging,
      listen,
      onReload: (phase) => void phases.push(phase),
    });
    t.teardown(() => worker.close());
    const yaml = readFileSync(place.config, 'utf8').replace('[p1]', '[p1, p2]');
    const more = `  - {id: p2, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./public/p2}]}\n`;
    writeFileSync(place.config, `${yaml}${more}`);
    t.match(await api.reload(), { added: ['pipelines.p2'], changed: ['upload_tokens.ci'] });
    const waiting = await acceptedId(await upload(api, 'p2', 'one'));
    t.match(await worker.reload(), { added: ['pipelines.p2'] });
    t.match(await follow(api.url, waiting), { status: 'succeeded', pipeline_id: 'p2' });
    t.ok(existsSync(path.join(place.root, 'public/p2/one/data.bin')));

    writeFileSync(place.config, `log: {level: error, requests: errors}\n${yaml}${more}`);
    t.same((await worker.reload()).changed, ['log']);
    t.same([logging.requests, logging.shows('warn'), logging.shows('error')], ['errors', false, true]);

    writeFileSync(place.config, `${yaml}${more}servr: {}\n`);
    await t.rejects(worker.reload(), { code: 'reload_refused' });
    t.same(phases, ['begun', 'ended', 'begun', 'ended', 'begun', 'ended']);
    t.match(await (await fetch(`${worker.url}metrics`)).text(), /^waybill_config_last_reload_successful 0$/m);

    writeFileSync(place.config, `${yaml}${more.replaceAll('p2', 'p3')}`.replace('p2', 'p3'));
    await redis.close();
    await t.rejects(api.reload(), { code: 'queue_unavailable' }, 'the queue of p3 cannot be opened');
    t.equal((await upload(api, 'p3', 'two')).status, 404, 'everything is unchanged');
  },
);
