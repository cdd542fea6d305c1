import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { ListObjectVersionsCommand } from '@aws-sdk/client-s3';
import t, { type Test } from 'tap';
import { freePort } from '../../../services/free-port.ts';
import { startPostgres } from '../../../services/postgres.ts';
import { startRadosgw } from '../../../services/radosgw.ts';
import { startRedis } from '../../../services/redis.ts';
import { startSshd } from '../../../services/sshd.ts';
import { document, type Ended, fingerprint, program, programForAll } from '../../process.ts';

/** `waybill config check --probe` on real servers, with valid and invalid settings. */

interface Tried {
  pointer: string;
  line: number;
  column: number;
  subject: string;
  found: string | null;
  error: { code: string; message: string; hint: string | null } | null;
}
interface Checked {
  valid: boolean;
  probes: Tried[];
  warnings: { code: string; message: string }[];
}

const [sshd, s3, redis, postgres] = await Promise.all([
  startSshd(t),
  startRadosgw(t),
  startRedis(),
  startPostgres(),
]);
t.teardown(() => Promise.all([redis.close(), postgres.remove()]));
const bucket = await s3.newBucket();
const receiver = await listening((socket) => socket.end());
const closed = await freePort();

const secrets: Record<string, string> = {
  TOKEN: 'a-token-of-these-tests-alone',
  KEY: s3.user.accessKeyId,
  SECRET: s3.user.secretAccessKey,
  REDIS: redis.url,
  DB: postgres.url(),
  HOOK: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
};
const sftp = (more: string): string =>
  `backend: sftp, host: 127.0.0.1, user: ${sshd.user}, ssh_key_file: "${sshd.clientKeyFile}", known_hosts_file: ./known, ${more}`;
const inBucket = (more: string): string =>
  `backend: s3, access_key_id_env: KEY, secret_access_key_env: SECRET, ${more}`;

t.test('reports working settings, and leaves no files', async (t) => {
  const place = newPlace(t);
  mkdirSync(path.join(place, 'source/one'), { recursive: true });
  mkdirSync(path.join(place, 'web'));
  mkdirSync(path.join(sshd.root, 'web'));
  const config = `upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [uploads]}]
server:
  queue: {driver: bullmq, redis_url_env: REDIS}
tracing: {endpoint: "http://127.0.0.1:${receiver.port}"}
notifiers:
  - {id: hook, kind: webhook, url: "http://127.0.0.1:${receiver.port}/secret-path", secret_env: HOOK}
  - {id: channel, kind: redis, redis_url_env: REDIS}
  - {id: lines, kind: file, path: ./events.jsonl}
databases: [{name: primary, driver: postgres, url_env: DB}]
templates: {base_dir: "${path.resolve('templates/weather')}"}
pipelines:
  - id: maps
    source: {backend: local, path: ./source}
    destinations:
      - {id: web, backend: local, path: ./web}
      - {id: later, backend: local, path: ./not/yet}
      - {id: mirror, ${sftp(`port: ${sshd.port}, path: "${sshd.root}/web"`)}}
      - {id: mirror-later, ${sftp(`port: ${sshd.port}, path: "${sshd.root}/later"`)}}
      - {id: cdn, ${inBucket(`bucket: ${bucket}, prefix: live/, endpoint: "${s3.endpoint}"`)}}
  - id: uploads
    source: {backend: http_upload}
    destinations: [{id: web, backend: local, path: ./uploads}]
`;
  writeFileSync(path.join(place, 'c.yml'), config);
  const before = fingerprint(place);
  const json = await waybill(place, ['--format', 'json']);
  const { valid, probes, warnings } = document(t, json) as Checked;
  t.equal(valid, true);
  t.same(
    probes.filter(({ error }) => error !== null),
    [],
  );
  t.equal(json.status, 0);
  t.same(warnings.filter(({ code }) => code === 'source_missing' || code === 'secret_missing').length, 0);
  t.same(
    probes.map(({ pointer }) => pointer),
    [
      'server.queue.scratch_directory',
      'server.staging.directory',
      'server.queue.redis_url_env',
      'tracing.endpoint',
      'pipelines[0].source.path',
      ...[0, 1, 2, 3].map((index) => `pipelines[0].destinations[${index}].path`),
      'pipelines[0].destinations[4].bucket',
      'pipelines[1].destinations[0].path',
      'notifiers[0]',
      'notifiers[1]',
      'notifiers[2]',
      'databases[0]',
      'templates.base_dir',
    ],
  );
  const said = new Map(probes.map(({ pointer, found }) => [pointer, found ?? '']));
  t.match(
    said.get('pipelines[0].destinations[0].path'),
    /may be written; belongs to \S+ \(mode 0\d+\); .* free/,
  );
  t.match(said.get('pipelines[0].destinations[1].path'), /does not exist, but can be created/);
  t.match(said.get('pipelines[0].destinations[2].path'), /reached, written to and cleaned/);
  t.match(said.get('pipelines[0].destinations[3].path'), /does not exist, but can be created/);
  t.match(said.get('templates.base_dir'), /14 of 14 templates/);
  const shown = await waybill(place, []);
  t.equal(shown.status, 0);
  t.match(shown.stdout, /^valid /m);
  t.match(shown.stdout, new RegExp(`probe {2}as \\S+ {2}${probes.length} places, all well`));
  for (const [name, value] of Object.entries(secrets))
    for (const { stdout, stderr } of [json, shown])
      if (name !== 'TOKEN') t.notOk((stdout + stderr).includes(value), `${name} is not printed`);
  t.notOk(json.stdout.includes('secret-path'), 'nor is the path of a webhook');

  t.same(fingerprint(place), before, 'no files are left on this machine, not even a known host');
  t.same(readdirSync(path.join(sshd.root, 'web')), [], 'nor on the SFTP server');
  t.notOk(readdirSync(sshd.root).includes('later'));
  const { Versions = [] } = await s3.client().send(new ListObjectVersionsCommand({ Bucket: bucket }));
  t.same(Versions, [], 'nor in the bucket');
});

t.test('reports each failure with its location, cause and fix', async (t) => {
  const place = newPlace(t);
  writeFileSync(path.join(place, 'file'), '');
  mkdirSync(path.join(place, 'templates'));
  writeFileSync(path.join(place, 'templates/alert.txt.tmpl'), 'one\n<% if ( %>\n');
  const nobodys = `http://127.0.0.1:${closed}`;
  writeFileSync(
    path.join(place, 'c.yml'),
    `upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [uploads]}]
server:
  queue: {driver: bullmq, redis_url_env: NO_REDIS}
tracing: {endpoint: "${nobodys}"}
notifiers:
  - {id: hook, kind: webhook, url: "${nobodys}/x", secret_env: HOOK}
  - {id: lines, kind: file, path: ./nowhere/events.jsonl}
databases: [{name: primary, driver: postgres, url_env: NO_DB}]
templates: {base_dir: "${place}/templates"}
pipelines:
  - id: maps
    source: {backend: local, path: ./source}
    destinations:
      - {id: in-file, backend: local, path: ./file/web}
      - {id: in-proc, backend: local, path: /proc/nope}
      - {id: no-sshd, ${sftp(`port: ${closed}, path: web`)}}
      - {id: no-login, ${sftp(`port: ${sshd.port}, path: web`).replace(sshd.user, 'nobody-at-all')}}
      - {id: no-bucket, ${inBucket(`bucket: missing-bucket, endpoint: "${s3.endpoint}"`)}}
      - {id: no-s3, ${inBucket(`bucket: maps, endpoint: "${nobodys}"`)}}
      - {id: no-key, ${inBucket(`bucket: ${bucket}, endpoint: "${s3.endpoint}"`).replace('env: KEY', 'env: NO_KEY')}}
  - id: uploads
    source: {backend: http_upload}
    destinations: [{id: web, backend: local, path: ./uploads}]
`,
  );
  const more = { NO_REDIS: `redis://127.0.0.1:${closed}`, NO_DB: `postgres://u:p@127.0.0.1:${closed}/db` };
  const json = await waybill(place, ['--format', 'json'], more);
  const { valid, probes, warnings } = document(t, json) as Checked;
  t.equal(json.status, 1);
  t.equal(valid, true, 'but the file itself is');
  const failed = new Map(probes.flatMap((each) => (each.error === null ? [] : [[each.pointer, each]])));
  const expected: [string, string, RegExp, RegExp][] = [
    ['server.queue.redis_url_env', 'queue_unavailable', /NO_REDIS.*connection refused/, /start Redis/],
    ['tracing.endpoint', 'unreachable', /ECONNREFUSED/, /tracing\.endpoint/],
    ['notifiers[0]', 'unreachable', /ECONNREFUSED/, /start the receiver/],
    ['notifiers[1]', 'unreachable', /nowhere" is not writable \(ENOENT\)/, /mkdir -p .*nowhere/],
    ['databases[0]', 'database_unavailable', /"primary" cannot be reached/, /check/],
    ['templates.base_dir', 'template_error', /alert\.txt\.tmpl/, /fix the template/],
    ['pipelines[0].source.path', 'storage_not_found', /source does not exist/, /mkdir -p/],
    [
      'pipelines[0].destinations[0].path',
      'storage_permanent',
      /file" is not a directory/,
      /move that file away/,
    ],
    ['pipelines[0].destinations[1].path', 'storage_permanent', /kernel file system/, /choose one on a disk/],
    ['pipelines[0].destinations[2].path', 'storage_transient', /connection refused/, /host.*port/],
    ['pipelines[0].destinations[3].path', 'storage_denied', /accepts none/, /authorized_keys/],
    ['pipelines[0].destinations[4].bucket', 'storage_not_found', /no bucket/, /create it/],
    ['pipelines[0].destinations[5].bucket', 'storage_transient', /refused/, /endpoint/],
    ['pipelines[0].destinations[6].bucket', 'secrets_invalid', /NO_KEY/, /environment variable NO_KEY/],
  ];
  t.same([...failed.keys()].sort(), expected.map(([pointer]) => pointer).sort());
  const shown = await waybill(place, [], more);
  t.equal(shown.status, 1);
  t.match(shown.stdout, new RegExp(`${probes.length} places, ${expected.length} of them failed`));
  for (const [pointer, code, message, hint] of expected) {
    const { error, line, column } = failed.get(pointer) as Tried;
    t.match(error, { code, message, hint }, pointer);
    t.ok(
      shown.stdout.includes(`c.yml:${line}:${column}: ${error?.message}`) &&
        shown.stdout.includes(`next  ${error?.hint}`),
      `${pointer} is also reported in text`,
    );
  }
  t.same(
    warnings.filter(({ message }) => message.includes('NO_KEY')),
    [],
    'probed settings are not also guessed',
  );
  t.notOk(readdirSync(place).includes('source'), 'nothing is created');
});

t.test('uses the owner of a directory, and reports it', async (t) => {
  const place = newPlace(t);
  for (const name of ['source', 'web']) mkdirSync(path.join(place, name));
  chmodSync(path.join(place, 'web'), 0o755);
  chmodSync(path.join(place, 'source'), 0o700);
  chmodSync(place, 0o755);
  writeFileSync(
    path.join(place, 'c.yml'),
    `pipelines:
  - id: maps
    source: {backend: local, path: ./source}
    destinations: [{id: web, backend: local, path: ./web}, {id: new, backend: local, path: ./new}]
`,
  );
  const json = await waybill(
    place,
    ['--format', 'json'],
    {},
    {
      ...{ uid: 65_534, gid: 65_534 },
      program: programForAll(t),
    },
  );
  const { probes } = document(t, json) as Checked;
  t.equal(json.status, 1);
  for (const { error, pointer } of probes)
    t.match(
      error,
      {
        // A directory that cannot be created could be on a disk that is not mounted.
        code: pointer.includes('destinations[1]') ? 'storage_unavailable' : 'storage_denied',
        message: /belongs to root \(mode 07\d\d\)/,
        hint: /let nobody, or the user of the daemon,|write access/,
      },
      pointer,
    );
  t.equal(probes.length, 3);
});

t.test('a silent server is abandoned after a timeout', async (t) => {
  const silent = await listening(() => undefined);
  t.teardown(() => silent.server.close());
  const place = newPlace(t);
  mkdirSync(path.join(place, 'source'));
  writeFileSync(
    path.join(place, 'c.yml'),
    `notifiers: [{id: hook, kind: webhook, url: "https://127.0.0.1:${silent.port}/", secret_env: HOOK}]
pipelines:
  - id: maps
    source: {backend: local, path: ./source}
    destinations:
      - {id: mirror, ${sftp(`port: ${silent.port}, path: web`)}}
      - {id: cdn, ${inBucket(`bucket: ${bucket}, endpoint: "http://127.0.0.1:${silent.port}"`)}}
`,
  );
  const json = await waybill(place, ['--format', 'json']);
  const { probes } = document(t, json) as Checked;
  t.equal(json.status, 1);
  const failed = probes.filter(({ error }) => error !== null);
  t.same(failed.map(({ pointer }) => pointer).sort(), [
    'notifiers[0]',
    'pipelines[0].destinations[0].path',
    'pipelines[0].destinations[1].bucket',
  ]);
  for (const { error, pointer } of failed) t.ok(error?.hint, pointer);
});

async function listening(
  onConnection: (socket: import('node:net').Socket) => unknown,
): Promise<{ port: number; server: Server }> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    onConnection(socket);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return { port: (server.address() as { port: number }).port, server };
}

function newPlace(t: Test): string {
  const place = mkdtempSync(path.join(tmpdir(), 'waybill-probe-'));
  t.teardown(() => rmSync(place, { recursive: true, force: true }));
  return place;
}

async function waybill(
  cwd: string,
  args: string[],
  env: Record<string, string> = {},
  as: { uid?: number; gid?: number; program?: string } = {},
): Promise<Ended> {
  const child = spawn(
    process.execPath,
    [as.program ?? program, 'config', 'check', '--probe', '-c', 'c.yml', ...args],
    {
      cwd,
      env: { PATH: process.env['PATH'], HOME: '/nonexistent', ...secrets, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(process.getuid?.() === 0 ? { uid: as.uid, gid: as.gid } : {}),
    },
  );
  const [stdout, stderr, status] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise<number | null>((resolve) => child.once('close', resolve)),
  ]);
  return { status, stdout, stderr };
}
