import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { digestOf } from '../../src/core/lib/digest.ts';
import { startCuttingProxy } from '../services/cutting-proxy.ts';
import { startSshd } from '../services/sshd.ts';
import { document, type Ended, fingerprint, manifest, program } from './process.ts';
import { upkeepSuite } from './upkeep.ts';

/**
 * The built program with an SFTP server: every maintenance command, and a publication whose connection
 * breaks.
 */

const server = await startSshd(t);
const proxy = await startCuttingProxy(t, server.port);

const place = (name: string, port = server.port): string =>
  `backend: sftp, host: ${server.host}, port: ${port}, user: ${server.user}, path: "${server.root}/${name}", ssh_key_file: "${server.clientKeyFile}", known_hosts_file: "${server.knownHostsFile}"`;

/** A pipeline between two directories of the server. The destination connects through the proxy. */
function layOut(t: Test, name: string, bundles: Record<string, Record<string, string>>): string {
  for (const [bundle, files] of Object.entries(bundles))
    for (const [file, content] of Object.entries(files)) {
      const target = path.join(server.root, `${name}-in`, bundle, file);
      mkdirSync(path.dirname(target), { recursive: true });
      writeFileSync(target, content);
    }
  const settings = 'workflow: replacement, retention: {prune: {enabled: true, keep_latest: 1}}';
  const config = path.join(t.testdir(), 'c.yml');
  writeFileSync(
    config,
    [
      'pipelines:',
      '  - id: maps',
      `    source: {${place(`${name}-in`)}}`,
      '    destinations:',
      `      - {id: mirror, ${place(`${name}-out`, proxy.port)}, ${settings}}`,
      '',
    ].join('\n'),
  );
  return config;
}

/** Must be asynchronous, because the proxy is in this process. */
async function waybill(...args: string[]): Promise<Ended> {
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent' },
  });
  const ended = once(child, 'exit') as Promise<[number | null]>;
  const [stdout, stderr, [status]] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { status, stdout, stderr };
}

t.test('validates, runs, verifies, reconciles and prunes, from SFTP to SFTP', async (t) => {
  const config = layOut(t, 'care', {
    old: { 'manifest.json': manifest(['a.txt'], '2026-11-20T00:00:00Z'), 'a.txt': 'a' },
    new: { 'manifest.json': manifest(['b.txt'], '2026-11-21T00:00:00Z'), 'b.txt': 'b' },
  });
  const out = path.join(server.root, 'care-out');
  t.equal((await waybill('validate', '-c', config, '-p', 'maps')).status, 0);
  t.notOk(existsSync(out), 'a validation writes nothing');
  const run = await waybill('run', '-c', config);
  t.equal(run.status, 0, run.stderr + run.stdout);
  t.equal((await waybill('verify', '-c', config)).status, 0);

  writeFileSync(path.join(out, 'new/b.txt'), 'x');
  const verified = await waybill('verify', '-c', config, '--format', 'json');
  t.equal(verified.status, 1, 'a byte changed by another program is detected');
  t.match(verified.stdout, /new\/b\.txt|b\.txt/);
  writeFileSync(path.join(out, 'new/b.txt'), 'b');

  rmSync(path.join(out, 'new/b.txt'));
  const reconciled = await waybill(
    'reconcile-state',
    '-c',
    config,
    '-p',
    'maps',
    '-d',
    'mirror',

    '--format',
    'json',
  );
  t.equal(reconciled.status, 0, reconciled.stderr + reconciled.stdout);
  document(t, reconciled);
  const state = readFileSync(path.join(out, 'new/.publisher.json'), 'utf8');
  t.notMatch(state, /"b\.txt"/, 'removed files are no longer recorded');
  t.equal((await waybill('run', '-c', config)).status, 0);
  t.equal(readFileSync(path.join(out, 'new/b.txt'), 'utf8'), 'b');

  const pruned = await waybill(
    'prune',
    '-c',
    config,
    '-p',
    'maps',
    '-d',
    'mirror',
    '--apply',
    '--format',
    'json',
  );
  t.equal(pruned.status, 0, pruned.stderr + pruned.stdout);
  document(t, pruned);
  t.same(files(out).filter((name) => name.endsWith('.txt')).length, 1, 'one output is kept');
  t.same(
    files(out).filter((name) => name.includes('.publisher') && !name.endsWith('.publisher.json')),
    [],
    'only the states are left',
  );
});

t.test('validate, inspect and a dry run read manifests, and no file contents unless requested', async (t) => {
  const content = 'c'.repeat(1 << 20);
  const config = layOut(t, 'look', {
    one: { 'manifest.json': manifest([{ path: 'a.bin', size: content.length, digest: digestOf(content) }]) },
  });
  writeFileSync(path.join(server.root, 'look-in/one/a.bin'), content);
  // Its source is also read through the proxy, which counts bytes.
  writeFileSync(
    config,
    readFileSync(config, 'utf8').replaceAll(`port: ${server.port}`, `port: ${proxy.port}`),
  );
  for (const args of [
    ['validate', '-c', config, '-p', 'maps', '--listing-only'],
    ['inspect', '-c', config, '-p', 'maps'],
    ['run', '-c', config, '--dry-run'],
  ]) {
    const before = proxy.passed('from the server');
    const ended = await waybill(...args);
    t.equal(ended.status, 0, ended.stderr + ended.stdout);
    const received = proxy.passed('from the server') - before;
    t.ok(received > 0 && received < 50_000, `${args[0]} received ${received} bytes`);
  }
  t.notOk(existsSync(path.join(server.root, 'look-out')), 'nothing is written');

  writeFileSync(path.join(server.root, 'look-in/one/a.bin'), content.replace('c', 'd'));
  const quick = await waybill('validate', '-c', config, '-p', 'maps', '--listing-only');
  t.equal(quick.status, 0, 'its size is still right');
  t.match(quick.stdout, /listed and not read/);
  const read = await waybill('validate', '-c', config, '-p', 'maps', '--format', 'json');
  t.equal(read.status, 1);
  t.match(document(t, read), { files_read: true, bundles: [{ findings: [{ code: 'digest_mismatch' }] }] });
});

t.test('reports an invalid bundle with its path on the server', async (t) => {
  const config = layOut(t, 'wrong', { one: { 'manifest.json': manifest(['missing.txt']) } });
  const ended = await waybill('validate', '-c', config, '-p', 'maps');
  t.equal(ended.status, 1);
  t.match(ended.stdout + ended.stderr, /missing\.txt/);
});

t.test('after a connection lost during publication and a restart, the next run converges', async (t) => {
  const names = Array.from({ length: 30 }, (_, index) => `f/${index}.bin`);
  const contents = Object.fromEntries(names.map((name) => [name, `${name} `.repeat(8_000)]));
  const config = layOut(t, 'cut', { one: { 'manifest.json': manifest(names), ...contents } });
  const out = path.join(server.root, 'cut-out');
  proxy.cutAfter(700_000, Infinity);
  const broken = await waybill('run', '-c', config);
  t.equal(broken.status, 1, broken.stdout);
  t.match(broken.stdout + broken.stderr, /connection|ended/);
  proxy.cutAfter(Infinity, 0);
  await server.restart();
  const fixed = await waybill('run', '-c', config);
  t.equal(fixed.status, 0, fixed.stderr + fixed.stdout);
  for (const name of names) t.equal(readFileSync(path.join(out, 'one', name), 'utf8'), contents[name], name);
  t.same(
    files(out).filter((name) => name.includes('.publisher')),
    ['one/.publisher.json'],
    'no files of the broken attempts are left',
  );
  t.match((await waybill('run', '-c', config)).stdout, /skip_same/);
});

let directories = 0;
upkeepSuite(t, {
  name: 'SFTP',
  waybill: async (args) => waybill(...args),
  async newDirectory() {
    directories += 1;
    const name = `upkeep-${directories}`;
    const root = path.join(server.root, name);
    mkdirSync(root);
    return {
      settings: place(name),
      async write(file, text) {
        mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
        writeFileSync(path.join(root, file), text);
      },
      remove: async (file) => rmSync(path.join(root, file)),
      read: async () =>
        Object.fromEntries(files(root).map((file) => [file, readFileSync(path.join(root, file), 'utf8')])),
      fingerprint: async () => fingerprint(root),
    };
  },
});

function files(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)))
    .sort();
}
