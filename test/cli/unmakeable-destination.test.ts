import { spawn, spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import net, { type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { configuration, document, type Ended, manifest, program } from './process.ts';

/**
 * Destinations that cannot be created, with the built program. Some cases used to hang. If they do so again,
 * the timeout of `spawnSync` ends the program without a status.
 */

const hungAfterMs = 60_000;

for (const [what, destination, named] of [
  ['below a dangling link', 'link/deep', 'link'],
  ['below a file', 'file/deep', 'file'],
  ['below /proc', '/proc/nope', '/proc/nope'],
] as const)
  t.test(`${what}: run and dry run fail immediately, and name the path and the fix`, async (t) => {
    const place = layOut(t, `id: web, backend: local, path: ${destination}`);
    for (const args of [['run'], ['run', '--dry-run']]) {
      const ended = waybill(place, args);
      t.equal(ended.status, 1, args.join(' '));
      t.match(ended.stdout, `"${path.resolve(place, named)}"`);
      t.match(ended.stdout, /^ +next {4}/m);
    }
    t.equal(waybill(place, ['run', '-d', 'fine']).status, 0, 'other destinations are published');
  });

// "Setup, planning or execution failure for a destination | `error` | That destination is marked failed."
t.test('a destination that fails at setup has the action `error`, in text and in JSON', async (t) => {
  const place = layOut(t, 'id: web, backend: local, path: file/deep');
  const withRoot = ['id: web, backend: local, path: file/deep', 'id: root, backend: local, path: file/x'];
  writeFileSync(
    path.join(place, 'c.yml'),
    configuration([
      withRoot[0] ?? '',
      `${withRoot[1]}, mapping: fixed`,
      'id: fine, backend: local, path: fine',
    ]),
  );
  for (const args of [['run', '--dry-run'], ['run']]) {
    const text = waybill(place, args);
    t.match(text.stdout, /^ {4}✗ error\n {6}failed {2}.*\n/m, `${args.join(' ')}: no path is known`);
    t.match(text.stdout, /^ {4}✗ target=\. {2}error\n/m, `${args.join(' ')}: a fixed destination`);
    const json = waybill(place, [...args, '--format', 'json']);
    t.equal(json.status, 1);
    const { pipelines } = document(t, json) as { pipelines: [{ destinations: [unknown, unknown, unknown] }] };
    const [web, fixed, fine] = pipelines[0].destinations;
    const failed = { action: 'error', bundle: null, error: { code: 'storage_permanent' } };
    t.match(web, { status: 'failed', actions: [{ ...failed, destination_path: null }] });
    t.match(fixed, { status: 'failed', actions: [{ ...failed, destination_path: '.' }] });
    t.match(fine, { status: 'ok', actions: [{ bundle: 'one', destination_path: 'one' }] });
  }
});

// From the same sentence of the specification.
t.test('an unreadable source gives every destination the action `error`', async (t) => {
  const place = layOut(t, 'id: web, backend: local, path: web');
  rmSync(path.join(place, 'source'), { recursive: true });
  for (const args of [['run', '--dry-run'], ['run']]) {
    const ended = waybill(place, args);
    t.match(ended, { status: 1, stdout: /^ {4}✗ error {2}nothing was published/m });
    const json = waybill(place, [...args, '--format', 'json']);
    const actions = [{ action: 'error', error: { code: 'storage_not_found' } }];
    t.match(document(t, json), { pipelines: [{ destinations: [{ actions }, { actions }] }] });
  }
});

t.test('without permission to create it, run and dry run name the directory that denies it', async (t) => {
  const place = layOut(t, 'id: web, backend: local, path: closed/deep');
  mkdirSync(path.join(place, 'closed'));
  chmodSync(path.join(place, 'closed'), 0o555);
  for (const args of [['run'], ['run', '--dry-run']]) {
    const ended = waybill(place, args, { unprivileged: true });
    t.equal(ended.status, 1, args.join(' '));
    t.match(ended.stdout, `"${path.join(place, 'closed/deep')}" cannot be created`);
    t.match(ended.stdout, `write access to "${path.join(place, 'closed')}"`);
  }
  mkdirSync(path.join(place, 'open'));
  writeFileSync(
    path.join(place, 'c.yml'),
    configuration(['id: web, backend: local, path: open', 'id: fine, backend: local, path: fine']),
  );
  chmodSync(path.join(place, 'open'), 0o555);
  const ended = waybill(place, ['run', '-d', 'web'], { unprivileged: true });
  t.match(ended, { status: 1, stdout: /the directory "one" cannot be created/ });
  t.match(ended.stdout, `write access to "${path.join(place, 'open')}"`);
});

t.test('SIGTERM ends a run within its grace period even if a server never answers', async (t) => {
  const server = net.createServer((socket) => socket.on('error', () => undefined));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const there = `host: 127.0.0.1, port: ${port}, user: publisher, path: /x, ssh_key_file: key`;
  const place = layOut(t, `id: web, backend: sftp, ${there}`);
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  writeFileSync(path.join(place, 'key'), privateKey.export({ type: 'pkcs1', format: 'pem' }), {
    mode: 0o600,
  });
  const connected = once(server, 'connection');
  const child = spawn(process.execPath, [program, 'run', '-c', 'c.yml'], {
    cwd: place,
    env: { PATH: process.env['PATH'], HOME: '/nonexistent' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const closed = once(child, 'close');
  await connected;
  child.kill('SIGTERM');
  t.same(await closed, [143, null]);
  t.match(stderr, /stopping and cleaning up/);
  t.match(stderr, /not stopped within 10 s, ended; the next run cleans up/);
});

function layOut(t: Test, destination: string): string {
  const place = mkdtempSync(path.join(tmpdir(), 'waybill-unmakeable-'));
  t.teardown(() => rmSync(place, { recursive: true, force: true }));
  mkdirSync(path.join(place, 'source/one'), { recursive: true });
  writeFileSync(path.join(place, 'source/one/manifest.json'), manifest(['a.txt']));
  writeFileSync(path.join(place, 'source/one/a.txt'), 'a');
  writeFileSync(path.join(place, 'file'), '');
  symlinkSync('/nowhere/at/all', path.join(place, 'link'));
  writeFileSync(
    path.join(place, 'c.yml'),
    configuration([destination, 'id: fine, backend: local, path: fine']),
  );
  return place;
}

/**
 * Root without its capabilities is subject to file modes like any user, but can read the program everywhere.
 */
const withoutPrivileges = ['setpriv', '--bounding-set=-all', '--inh-caps=-all', '--'];

function waybill(place: string, args: string[], { unprivileged = false } = {}): Ended {
  const through = unprivileged && process.getuid?.() === 0 ? withoutPrivileges : [];
  const command = [...through, process.execPath, program, ...args, '-c', 'c.yml'];
  return spawnSync(command[0] as string, command.slice(1), {
    encoding: 'utf8',
    cwd: place,
    env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent' },
    timeout: hungAfterMs,
    killSignal: 'SIGKILL',
  });
}
