import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import type net from 'node:net';
import path from 'node:path';
import t from 'tap';
import { connect } from '../../src/client/client.ts';
import { digestOf } from '../../src/core/lib/digest.ts';
import { inParallel } from '../../src/core/lib/parallel.ts';
import { ensureInstalled } from '../services/debian.ts';
import { startRoughProxy } from '../services/rough-proxy.ts';
import { generator, howMany, share } from '../support/sampling.ts';
import { startDaemon } from './daemon.ts';
import { installLinked, packWaybill } from './packed.ts';
import { document, type Ended, errorDocument, fingerprint, program, waybill } from './process.ts';

t.test('pack: reports the archive and its contents in text and JSON', (t) => {
  const place = t.testdir({ site: { 'index.html': '<p>', sub: { a: 'A' } } });
  const site = path.join(place, 'site');
  const before = fingerprint(site);
  const env = { SOURCE_DATE_EPOCH: '1795136523' };
  t.match(waybill(['pack', 'site', '--name', 'n'], { cwd: place, env }), {
    status: 0,
    stderr: '',
    stdout: /^packed {2}site\.tar\.gz {2}2 files, 4 B, \d+ B packed {2}sha256:[0-9a-f]{64}\n$/,
  });
  const archive = readFileSync(path.join(place, 'site.tar.gz'));
  const ended = waybill(['pack', 'site', '-o', 'other.tgz', '--name', 'n', '--format', 'json'], {
    cwd: place,
    env,
  });
  t.match(document(t, ended), {
    kind: 'pack',
    manifest: { is_new: true, written: null },
    archive: { path: path.join(place, 'other.tgz'), size: archive.length, digest: digestOf(archive) },
    created: '2026-11-20T01:02:03.000Z',
    name: 'n',
    files: 2,
    bytes: 4,
  });
  t.ok(readFileSync(path.join(place, 'other.tgz')).equals(archive));
  t.same(fingerprint(site), before, 'the directory is unchanged');
  t.same(readdirSync(place).sort(), ['other.tgz', 'site', 'site.tar.gz'], 'no other files are left');

  const given = ['--created', '2026-11-20T01:02:03Z', '--metadata', 'by=me', '--exclude', 'sub'];
  t.match(waybill(['pack', 'site', '--manifest-only', ...given], { cwd: place }), {
    status: 0,
    stdout: 'written  site/manifest.json  1 file, 3 B\n',
  });
  t.match(JSON.parse(readFileSync(path.join(site, 'manifest.json'), 'utf8')), {
    metadata: { by: 'me' },
    files: [{ path: 'index.html' }],
  });
  t.match(waybill(['pack', 'site', '--manifest-only'], { cwd: place, env }), {
    status: 0,
    stdout: 'valid  site/manifest.json  1 file, 3 B\n',
    stderr: /warning {2}site: 1 file is not in the manifest/,
  });
  t.end();
});

t.test('pack: names each error, and writes no archive', (t) => {
  const place = t.testdir({ site: { a: 'A' }, 'old.tgz': 'old' });
  symlinkSync('a', path.join(place, 'site', 'link'));
  t.match(waybill(['pack', 'site', '-o', 'old.tgz'], { cwd: place }), {
    status: 1,
    stdout: '',
    stderr: /site\/link is a symbolic link/,
  });
  t.equal(readFileSync(path.join(place, 'old.tgz'), 'utf8'), 'old');
  mkdirSync(path.join(place, 'good'));
  writeFileSync(path.join(place, 'good', 'a'), 'A');
  const wrong: [string[], RegExp][] = [
    [['gone'], /"gone" does not exist/],
    [['good', '-o', 'good/x.tgz'], /would be inside the directory that it packs/],
    [['good', '-o', 'nowhere/x.tgz'], /cannot be written/],
    [['good', '--created', 'soon'], /RFC 3339/],
    [['good', '--name', '/a'], /absolute/],
    [['good', '--metadata', 'x'], /key=value/],
    [['good', '--metadata', 'x=1', '--metadata', 'x=2'], /twice/],
  ];
  for (const [args, said] of wrong)
    t.match(
      waybill(['pack', ...args], { cwd: place }),
      { status: 2, stdout: '', stderr: said },
      args.join(' '),
    );
  const both = waybill(['pack', 'good', '-o', '-', '--format', 'json'], { cwd: place });
  t.match(both, { status: 2, stderr: /standard output/ });
  t.match(errorDocument(t, both), { kind: 'error', error: { code: 'usage' } });
  t.match(waybill(['pack', 'good'], { cwd: place, env: { SOURCE_DATE_EPOCH: 'x' } }), { status: 2 });
  t.same(readdirSync(place).sort(), ['good', 'old.tgz', 'site']);
  t.end();
});

const token = 'a-token-of-all-producers';
const config = [
  'upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [site, blocked]}]',
  'server: {http: {listen: "127.0.0.1:0", queue_size: 1000}, staging: {directory: ./staging}}',
  'pipelines:',
  '  - {id: site, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}',
  '  - {id: theirs, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./theirs}]}',
  '  - {id: blocked, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./blocked}]}',
].join('\n');

/** Runs a program without blocking this process, which may be the server that it calls. */
function ended(
  file: string,
  args: readonly string[],
  { cwd, env = {} }: { cwd: string; env?: Record<string, string> },
): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { cwd, env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', ...env } };
    const child = execFile(file, [...args], options, (_error, stdout, stderr) =>
      resolve({ status: child.exitCode, stdout, stderr }),
    );
  });
}

t.test('push, runs and pipelines on a daemon', async (t) => {
  const place = t.testdir({
    'c.yml': config,
    blocked: { n: { 'diary.txt': 'not yours' } },
    site: { 'index.html': '<p>', sub: { a: 'A' } },
    token: `${token}\n`,
  });
  const { url } = await startDaemon(t, place, { TOKEN_CI: token });
  const run = (args: string[], value = token): Ended =>
    waybill([...args, '--to', url], { cwd: place, env: { WAYBILL_TOKEN: value } });

  const planned = run(['push', 'site', '-p', 'site', '--name', 'n', '--dry-run']);
  t.match(planned, { status: 0, stdout: /web\n.*target=n +publish_new +2 changes/ });
  t.notOk(existsSync(path.join(place, 'web')));

  const pushed = run(['push', 'site', '-p', 'site', '--name', 'n', '--no-git']);
  t.match(pushed, {
    status: 0,
    stdout: /^succeeded {2}(site\.\S+) .*\n {2}\+ web {2}target=n {2}publish_new {2}2 files/,
    stderr: /^note {2}accepted as site\./,
  });
  t.equal(readFileSync(path.join(place, 'web/n/sub/a'), 'utf8'), 'A');
  const id = /site\.\S+/.exec(pushed.stdout)?.[0] ?? '';

  const args = ['push', 'site', '-p', 'site', '--name', 'n', '--no-git', '--format', 'json'];
  const again = waybill([...args, '--token-file', 'token', '--to', url], { cwd: place });
  t.match(document(t, again), { kind: 'push', run_id: id, is_replayed: true, run: { status: 'succeeded' } });
  const repeated = document(t, run([...args, '--again', '--no-wait'])) as { run_id: string; run: null };
  t.match(repeated, { is_replayed: false, run: null });
  t.not(repeated.run_id, id);
  t.equal(run(['runs', 'follow', repeated.run_id]).status, 0);

  const noted = run(['push', 'site', '-p', 'site', '--name', 'm', '--no-git', '--message', 'Fix <b>it</b>']);
  t.match(noted, { status: 0, stdout: /^succeeded .*\n {2}Fix <b>it<\/b>\n/ });
  const notedId = /site\.\S+/.exec(noted.stdout)?.[0] ?? '';
  t.match(run(['runs', 'show', notedId]).stdout, /\n {2}Fix <b>it<\/b>\n/);
  t.match(document(t, run(['runs', 'show', notedId, '--format', 'json'])), {
    run: { revision: { message: 'Fix <b>it</b>', commit: null, branch: null, author: null } },
  });

  const failed = run(['push', 'site', '-p', 'blocked', '--name', 'n', '--no-git']);
  t.match(failed, { status: 1, stdout: /^failed .*\n {2}✗ web .*\n +unmanaged_content/ });

  t.match(run(['push', 'site', '-p', 'site'], 'wrong'), {
    status: 2,
    stdout: '',
    stderr: /next {3}.*WAYBILL_TOKEN/,
  });
  t.match(run(['push', 'site', '-p', 'theirs']), {
    status: 2,
    stderr: /error {2}[^;]+\nnext {3}use the token of this pipeline, .*; waybill pipelines --to/,
  });
  t.match(run(['push', 'site', '-p', 'typo']), { status: 2, stderr: /next {3}waybill pipelines --to/ });
  t.match(
    waybill(['push', 'site', '-p', 'site', '--to', `${url}wrong`], {
      cwd: place,
      env: { WAYBILL_TOKEN: token },
    }),
    {
      status: 2,
      stderr: /server\.http\.base_path/,
    },
  );
  t.match(waybill(['push', 'site', '-p', 'site', '--to', url], { cwd: place }), {
    status: 2,
    stderr: /no token was given/,
  });
  t.match(run(['push', 'gone', '-p', 'site']), { status: 2, stderr: /"gone" does not exist/ });

  t.match(document(t, run(['runs', 'list', '--format', 'json', '--status', 'failed'])), {
    kind: 'runs',
    runs: [{ pipeline_id: 'blocked', status: 'failed' }],
  });
  t.match(
    run(['runs', 'list', '-p', 'site', '--limit', '1']).stdout,
    new RegExp(`^[\\d-]+ [\\d:]+ \\S+ +succeeded +${notedId} +web publish_new\\n$`),
  );
  t.match(document(t, run(['runs', 'show', id, '--format', 'json'])), {
    kind: 'run-record',
    run: { run_id: id },
  });
  t.match(run(['runs', 'show', 'site.unknown']), { status: 1, stderr: /^error/ });
  t.match(run(['runs', 'cancel', id]), { status: 1, stderr: /ended/ });
  t.match(run(['pipelines']), { status: 0, stdout: /^site +uploads → web +idle +last success .*\nblocked / });
  t.match(document(t, run(['pipelines', '--format', 'json'])), {
    kind: 'pipelines',
    pipelines: [{ pipeline_id: 'site' }, { pipeline_id: 'blocked' }],
  });
});

t.test('rejects an untrusted certificate, with the fix', async (t) => {
  await ensureInstalled('openssl');
  const place = t.testdir({ site: { a: 'A' } });
  const made = [
    '-keyout',
    'key',
    '-out',
    'cert',
    '-subj',
    '/CN=localhost',
    '-addext',
    'subjectAltName=DNS:localhost',
  ];
  const request = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-days',
    '2',
  ];
  execFileSync('openssl', [...request, ...made], { cwd: place, stdio: 'ignore' });
  const [key, cert] = [readFileSync(path.join(place, 'key')), readFileSync(path.join(place, 'cert'))];
  let requests = 0;
  const server = https.createServer({ key, cert }, (_req, res) => {
    requests += 1;
    res.end('{"pipelines":[]}');
  });
  server.listen(0, 'localhost');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const url = `https://localhost:${(server.address() as net.AddressInfo).port}`;
  const args = [program, 'pipelines', '--to', url];
  const env = { WAYBILL_TOKEN: token };
  t.match(await ended(process.execPath, args, { cwd: place, env }), {
    status: 2,
    stderr: /certificate.*\nnext.*NODE_EXTRA_CA_CERTS/s,
  });
  t.equal(requests, 0);
  t.match(await ended(process.execPath, args, { cwd: place, env: { ...env, NODE_EXTRA_CA_CERTS: 'cert' } }), {
    status: 0,
    stderr: /for no pipeline/,
  });
});

t.test('a fresh installation from the package publishes a directory with one command', async (t) => {
  const place = t.testdir({
    'c.yml': config,
    clean: { site: { 'index.html': '<p>' } },
  });
  const clean = path.join(place, 'clean');
  installLinked(packWaybill(place), clean);
  const installed = path.join(clean, 'node_modules', 'waybill');
  const { url } = await startDaemon(t, place, { TOKEN_CI: token });
  const bin = path.join(clean, 'node_modules/.bin/waybill');
  const push = ['push', './site', '--to', url, '--pipeline', 'site', '--name', 'n', '--no-git'];
  t.match(await ended(bin, push, { cwd: clean, env: { WAYBILL_TOKEN: token } }), { status: 0 });
  t.equal(readFileSync(path.join(place, 'web/n/index.html'), 'utf8'), '<p>');

  const script = `import { push } from 'waybill/client';
    const { run } = await push({ url: ${JSON.stringify(url)}, token: '${token}', pipeline: 'site', bundle: './site', name: 'm' });
    console.log(run.status);`;
  t.match(await ended(process.execPath, ['--input-type=module', '-e', script], { cwd: clean }), {
    status: 0,
    stdout: 'succeeded\n',
    stderr: '',
  });
  for (const file of ['client/client.d.ts', 'core/lib/errors.d.ts'])
    t.ok(existsSync(path.join(installed, 'dist', file)), `${file} is in the package`);
});

const allPushes = 1000;

t.test('over a network that disconnects, loses and stalls, each bundle is published once', async (t) => {
  const pushes = howMany(allPushes, 20);
  // A pipeline has one run at a time, so with a single pipeline a thousand runs would wait for each other.
  const pipelines = ['one', 'two', 'three', 'four'];
  const place = t.testdir({
    'c.yml': [
      `upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [${pipelines.join(', ')}]}]`,
      'server:',
      '  http: {listen: "127.0.0.1:0", queue_size: 1000, max_concurrency: 4}',
      '  staging: {directory: ./staging}',
      'pipelines:',
      ...pipelines.map(
        (id) =>
          `  - {id: ${id}, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}`,
      ),
    ].join('\n'),
    a: { file: 'x'.repeat(2000) },
  });
  const { port, url } = await startDaemon(t, place, { TOKEN_CI: token });
  const proxy = await startRoughProxy(t, port, generator('rough line'));
  let retries = 0;
  const client = connect({
    url: `http://127.0.0.1:${proxy.port}`,
    token,
    idleMs: 2000,
    answerMs: 4000,
    patience: { forMs: 600_000, tries: 1000, baseMs: 20, capMs: 200 },
    onRetry: () => void (retries += 1),
  });
  const runs = new Set<string>();
  await inParallel(
    Array.from({ length: pushes }, (_, index) => index),
    // Most pushes wait for a stalled connection.
    48,
    async (index) => {
      const { runId, run } = await client.push(pipelines[index % 4] as string, path.join(place, 'a'), {
        name: `n${index}`,
        // In both directions, because responses may be lost as well.
        resumable: index % 8 < 4 ? 'never' : 'always',
      });
      runs.add(runId);
      if (run?.status !== 'succeeded') t.fail(`push ${index} ended as ${String(run?.status)}`);
    },
  );
  const accepted: string[] = [];
  for await (const { run_id: id } of connect({ url, token }).runs.list({}, 2 * pushes)) accepted.push(id);
  t.same(accepted.sort(), [...runs].sort(), 'the daemon accepted no bundle twice');
  t.equal(runs.size, pushes);
  t.equal(readdirSync(path.join(place, 'web')).length, pushes, 'and lost none');
  t.ok(retries > 0);
  t.comment(
    `report: ${share(pushes, allPushes)} pushes over a bad network, ${retries} retries; ${JSON.stringify(proxy.done)}`,
  );
});
