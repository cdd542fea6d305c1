import { execFile } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import {
  metricsToken,
  relativePlaces,
  servicePlaces,
  situations,
} from '../../../../src/cli/commands/publish/situations.ts';
import { parseConfig } from '../../../../src/core/config/load-config.ts';
import { startRadosgw } from '../../../services/radosgw.ts';
import { startSshd } from '../../../services/sshd.ts';
import { startDaemon } from '../../daemon.ts';
import { document, program, waybill } from '../../process.ts';

/** Checks that the files of `waybill init` work: each situation is used with other names. */

const token = 'a-token-of-this-test-alone';
const env = { WAYBILL_TOKEN: token };
const names = situations.map(({ name }) => name);

const read = (...parts: string[]): string => readFileSync(path.join(...parts), 'utf8');

/** The configuration of a situation as `c.yml` in a new directory, next to a bundle. */
function layOut(t: Test, name: string, edit: (text: string) => string = (text) => text): string {
  const place = t.testdir({ talk: { 'page.html': '<p>page</p>' } });
  t.equal(waybill(['init', name, '-o', 'c.yml'], { cwd: place }).status, 0);
  const text = read(place, 'c.yml').replace('127.0.0.1:8080', '127.0.0.1:0');
  writeFileSync(path.join(place, 'c.yml'), edit(text));
  return place;
}

async function push(t: Test, place: string, more: Record<string, string> = {}): Promise<void> {
  const { url, process: daemon } = await startDaemon(t, place, { ...env, ...more });
  const args = [program, 'push', 'talk', '--name', 'talk', '--to', url, '--pipeline', 'uploads'];
  await promisify(execFile)(process.execPath, args, { cwd: place, env: { ...process.env, ...env } });
  daemon.kill('SIGTERM');
  await once(daemon, 'exit');
  t.equal(daemon.exitCode, 0);
}

t.test('serves metrics on the loopback interface, and requires a token for a service', (t) => {
  for (const { name, text } of situations)
    for (const places of [relativePlaces, servicePlaces]) {
      const { config } = parseConfig(Buffer.from(text(places)), '/etc/waybill/waybill.yml', { home: '/' });
      const { http, metrics } = config.server;
      t.equal(http.host, '127.0.0.1', name);
      t.equal(metrics.tokenEnv, places.isService ? metricsToken : null, name);
      t.match(text(places), /metrics: \{ token_env: WAYBILL_METRICS_TOKEN \}/, name);
    }
  const place = t.testdir({});
  const ended = waybill(['init', 'uploads', '--systemd', 'w.service', '--format', 'json'], { cwd: place });
  const { secrets, next } = document(t, ended) as { secrets: string[]; next: string[] };
  t.ok(secrets.includes(metricsToken));
  t.match(next.join('\n'), /token new producer .*WAYBILL_TOKEN\n.*urandom .*WAYBILL_METRICS_TOKEN/);
  t.match(read(place, 'w.service'), /LoadCredential=WAYBILL_METRICS_TOKEN:/);
  t.end();
});

const publishesFromHere = ['directory', 'sftp'];

t.test('without a situation, publishes a site in the directory, or else uploads', async (t) => {
  const chosen = (place: string): unknown => {
    const { situation } = document(t, waybill(['init', '--format', 'json'], { cwd: place })) as {
      situation: string;
    };
    return [situation, /path: (\.\/\w+)/g.exec(read(place, 'waybill.yml'))?.[1]];
  };
  t.same(chosen(t.testdir({ incoming: { 'index.html': '' } })), ['uploads', './public']);
  const place = t.testdir({ public: { 'index.html': '<p>home</p>' } });
  t.same(chosen(place), ['directory', './public']);
  t.equal(waybill(['run', '-c', 'waybill.yml'], { cwd: place }).status, 0);
  t.equal(read(place, 'www/index.html'), '<p>home</p>');
});

t.test('the files of every situation pass config check, with and without a unit', async (t) => {
  t.equal(names.length, 5);
  for (const name of names)
    for (const more of [[], ['--systemd', 'waybill.service']]) {
      const place = t.testdir({});
      const ended = waybill(['init', name, '--format', 'json', ...more], { cwd: place });
      t.equal(ended.status, 0, ended.stderr);
      const printed = document(t, ended) as { files: { path: string }[]; secrets: string[]; next: string[] };
      t.same(
        printed.files.map((file) => path.relative(place, file.path)),
        ['waybill.yml', ...more.slice(1)],
      );
      const text = read(place, 'waybill.yml');
      t.match(text, /^# /, 'it describes itself');
      t.ok((text.match(/ # | {2}# |^# /gm) ?? []).length > 5, 'it has comments');
      const url = 'postgres://reader:secret@127.0.0.1/weather';
      const set = Object.fromEntries(
        printed.secrets.map((secret) => [secret, secret.endsWith('_URL') ? url : token]),
      );
      const check = waybill(['config', 'check', '-c', 'waybill.yml', '--format', 'json'], {
        cwd: place,
        env: set,
      });
      const { valid, warnings } = document(t, check) as { valid: boolean; warnings: object[] };
      t.equal(valid, true, `${name} ${more.join(' ')}`);
      // The directory of bundles does not exist yet, and the user's key may not either.
      const said = warnings.map((one) => JSON.stringify(one));
      const missing = said.filter((one) => one.includes('incoming does not exist'));
      t.equal(missing.length, publishesFromHere.includes(name) ? 1 : 0, name);
      const others = said.filter((one) => !missing.includes(one));
      t.strictSame(
        others.filter((one) => name !== 'sftp' || !one.includes('ssh_key_file')),
        [],
      );
      t.ok(printed.next.length > 1);
    }
});

t.test('the text names the files and the next commands', async (t) => {
  const place = t.testdir({});
  const { stdout, stderr, status } = waybill(['init', 'uploads', '--systemd', 'w.service'], { cwd: place });
  t.match({ stderr, status }, { stderr: '', status: 0 });
  t.match(
    stdout,
    /^wrote {2}waybill\.yml {2}\(configuration\)\nwrote {2}w\.service {2}\(systemd unit\)\nnext\n/,
  );
  t.match(stdout, 'sudo install -m 644 waybill.yml /etc/waybill/waybill.yml');
  t.match(read(place, 'w.service'), 'LoadCredential=WAYBILL_TOKEN:/etc/waybill/secrets/WAYBILL_TOKEN');
});

t.test('overwrites nothing, and writes both files or neither', async (t) => {
  const refuses = (place: string, ...args: string[]): void => {
    const before = readdirSync(place).sort();
    const ended = waybill(['init', 'directory', ...args], { cwd: place });
    t.match(ended, { status: 2, stdout: '' });
    t.match(ended.stderr, /^error {2}.*\nnext {3}/);
    t.same(readdirSync(place).sort(), before, args.join(' '));
  };
  const place = t.testdir({ 'waybill.yml': 'mine', 'w.service': 'mine' });
  refuses(place);
  refuses(place, '-o', 'other.yml', '--systemd', 'w.service');
  refuses(place, '--systemd', 'other.service');
  refuses(place, '-o', 'one', '--systemd', './one');
  refuses(place, '-o', 'nowhere/waybill.yml');
  refuses(place, '-o', 'other.yml', '--systemd', 'nowhere/w.service');
  t.equal(read(place, 'waybill.yml'), 'mine');
  symlinkSync('nowhere', path.join(place, 'dangling.yml'));
  refuses(place, '-o', 'dangling.yml');
  t.match(waybill(['init', 'direktory'], { cwd: place }), { status: 2, stderr: /directory, uploads, s3/ });
});

t.test('directory: the suggested commands publish', async (t) => {
  const place = layOut(t, 'directory');
  mkdirSync(path.join(place, 'DIRECTORY'));
  writeFileSync(path.join(place, 'DIRECTORY/page.html'), '<p>page</p>');
  const { next } = JSON.parse(
    waybill(['init', 'directory', '-o', 'd.yml', '--format', 'json'], { cwd: place }).stdout,
  ) as { next: string[] };
  const typed = next.filter((line) => !line.startsWith('waybill serve')).join('\n');
  const script = `set -e\nwaybill() { "${process.execPath}" "${program}" "$@"; }\n${typed}`;
  await promisify(execFile)('bash', ['-c', script], { cwd: place });
  t.match(read(place, 'public/index.html'), 'page.html');
  t.ok(existsSync(path.join(place, 'public/SHA256SUMS')));
});

/** A site as a generator makes it, as `www` in `place`. */
function makeSite(place: string): void {
  mkdirSync(path.join(place, 'www'));
  writeFileSync(path.join(place, 'www/index.html'), '<link rel="stylesheet" href="style.css">');
  writeFileSync(path.join(place, 'www/style.css'), 'p {}');
}

t.test('directory: a site with an index.html is published, edited and published again', async (t) => {
  const place = layOut(t, 'directory');
  makeSite(place);
  renameSync(path.join(place, 'www'), path.join(place, 'incoming'));
  const run = (): void => {
    const ended = waybill(['run', '-c', 'c.yml'], { cwd: place });
    t.match(ended, { status: 0 }, ended.stdout + ended.stderr);
  };
  run();
  t.match(read(place, 'public/index.html'), 'stylesheet');
  writeFileSync(path.join(place, 'incoming/index.html'), '<p>edited</p>');
  rmSync(path.join(place, 'incoming/style.css'));
  run();
  t.equal(read(place, 'public/index.html'), '<p>edited</p>');
  t.notOk(existsSync(path.join(place, 'public/style.css')));
});

t.test('uploads: a site with an index.html is pushed, edited and pushed to the same path', async (t) => {
  const place = layOut(t, 'uploads');
  makeSite(place);
  const { url } = await startDaemon(t, place, env);
  const args = [program, 'push', 'www', '--to', url, '--pipeline', 'uploads'];
  const pushes = (): Promise<unknown> =>
    promisify(execFile)(process.execPath, args, { cwd: place, env: { ...process.env, ...env } });
  await pushes();
  t.match(read(place, 'public/www/index.html'), 'stylesheet');
  writeFileSync(path.join(place, 'www/index.html'), '<p>edited</p>');
  rmSync(path.join(place, 'www/style.css'));
  await pushes();
  t.equal(read(place, 'public/www/index.html'), '<p>edited</p>');
  t.same(readdirSync(path.join(place, 'public')), ['www'], 'at the same path');
  t.notOk(existsSync(path.join(place, 'public/www/style.css')));
});

t.test('uploads: the daemon accepts a bundle and publishes it', async (t) => {
  const place = layOut(t, 'uploads');
  await push(t, place);
  t.equal(read(place, 'public/talk/page.html'), '<p>page</p>');
  t.notOk(existsSync(path.join(place, 'state/queue')), 'without a queue on disk, which needs LMDB');
});

t.test('uploads: uncommenting one line enables the queue on disk', async (t) => {
  const place = layOut(t, 'uploads', (text) => text.replace('# queue:', 'queue:'));
  await push(t, place);
  t.equal(read(place, 'public/talk/page.html'), '<p>page</p>');
  t.ok(existsSync(path.join(place, 'state/queue')));
});

t.test('s3: the daemon publishes to a bucket', async (t) => {
  const server = await startRadosgw(t);
  const bucket = await server.newBucket();
  const place = layOut(t, 's3', (text) =>
    text
      .replace('bucket: my-bucket', `bucket: ${bucket}`)
      .replace(/# endpoint: \S+/, `endpoint: "${server.endpoint}"`),
  );
  const { accessKeyId, secretAccessKey } = server.user;
  await push(t, place, { S3_ACCESS_KEY_ID: accessKeyId, S3_SECRET_ACCESS_KEY: secretAccessKey });
  const secrets = { S3_ACCESS_KEY_ID: accessKeyId, S3_SECRET_ACCESS_KEY: secretAccessKey };
  const verified = waybill(['verify', '-c', 'c.yml', '--format', 'json'], { cwd: place, env: secrets });
  t.equal(verified.status, 0, verified.stderr);
  t.match(verified.stdout, '"talk"');
});

t.test('sftp: a run publishes to a server and keeps its key', async (t) => {
  const server = await startSshd(t);
  const place = layOut(t, 'sftp', (text) =>
    text
      .replace(
        'host: sftp.example.org',
        `host: ${server.host}, port: ${server.port}`.replace(', ', '\n        '),
      )
      .replace('user: publisher', `user: ${server.user}`)
      .replace('path: site', `path: ${server.root}/site`)
      .replace('~/.ssh/id_ed25519', server.clientKeyFile),
  );
  await promisify(execFile)('cp', ['-r', 'talk', 'incoming'], { cwd: place });
  const ended = waybill(['run', '-c', 'c.yml'], { cwd: place });
  t.equal(ended.status, 0, ended.stderr + ended.stdout);
  t.equal(read(server.root, 'site/page.html'), '<p>page</p>');
  t.ok(read(place, 'state/known_hosts').length > 0);
});
