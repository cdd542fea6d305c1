import { execFile } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { startDaemon } from './cli/daemon.ts';
import { packWaybill } from './cli/packed.ts';
import { manifest } from './cli/process.ts';
import { startNpmRegistry } from './services/npm-registry.ts';

/*
 * The package without a clone: packed, installed from a registry into an empty prefix, used, and
 * uninstalled, all in a separate directory.
 */

const run = promisify(execFile);
const token = 'a-token-of-this-test-alone';
// Not below the clone, because Node.js would find its packages.
const place = realpathSync(mkdtempSync(path.join(tmpdir(), 'waybill-install-')));
t.teardown(() => rmSync(place, { recursive: true, force: true }));
const prefix = path.join(place, 'prefix');
mkdirSync(prefix);
const installed = path.join(prefix, 'node_modules', 'waybill');
const tarball = packWaybill(place);
const registry = await startNpmRegistry(t, tarball);

/** The configuration from `waybill init`, with weather and scene maps, on a free port. */
function completed(text: string): string {
  return `${text
    .replace('127.0.0.1:8080', '127.0.0.1:0')
    .replace('# queue:', 'queue:')
    .replace('index: auto', 'index: auto\n          scene_map_page: true')}
databases: [{ name: embedded, driver: pglite, directory: ./database }]
`;
}

async function npm(...args: string[]): Promise<{ stdout: string; stderr: string }> {
  const own = ['--prefix', prefix, '--registry', registry, '--no-audit', '--no-fund', '--loglevel', 'error'];
  const env = { ...process.env, NO_PROXY: '127.0.0.1', no_proxy: '127.0.0.1' };
  return run('npm', [...own, ...args], { cwd: prefix, env, maxBuffer: 64 << 20 });
}

function filesIn(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)));
}

/** Whether the target of a link in a packed file exists, without checking anchors. */
function leadsIn(file: string, target: string): boolean {
  return existsSync(path.join(installed, path.dirname(file), target.replace(/#.*/, '')));
}

const bin = path.join(prefix, 'node_modules', '.bin', 'waybill');
const env = { PATH: process.env['PATH'] ?? '', HOME: place };
const waybill = async (...args: string[]): Promise<string> =>
  (await run(bin, args, { cwd: place, env: { ...env, WAYBILL_TOKEN: token } })).stdout;

t.test('npm installs one package, without a warning', async (t) => {
  const { stdout, stderr } = await npm('install', 'waybill', '--loglevel', 'warn');
  t.match(stdout, /^added 1 package in /m);
  t.equal(stderr, '');
  t.same(
    readdirSync(path.join(prefix, 'node_modules')).filter((name) => !name.startsWith('.')),
    ['waybill'],
  );
  t.notOk(existsSync(path.join(installed, 'node_modules')));
  const sizes = filesIn(installed).map((file) => statSync(path.join(installed, file)).size);
  const size = sizes.reduce((sum, each) => sum + each, 0);
  t.ok(size < 40_000_000, `${size} bytes`);
});

t.test('the installed program publishes a directory', async (t) => {
  const site = path.join(place, 'first');
  mkdirSync(site);
  writeFileSync(path.join(site, 'index.html'), '<p>first</p>');
  const args = ['--no', '--prefix', prefix, 'waybill', 'publish', site, path.join(place, 'www')];
  await run('npx', args, { cwd: place, env: { ...process.env, HOME: place } });
  t.equal(readFileSync(path.join(place, 'www/index.html'), 'utf8'), '<p>first</p>');
});

t.test('the package has the files that users need, and all its links work', async (t) => {
  const files = filesIn(installed);
  t.same(
    files.filter((file) =>
      /\.(?:map|cache|tsbuildinfo|made-by)$|^(?:test|scripts|bench|src)\/|^dist\/\./.test(file),
    ),
    [],
  );
  t.ok(statSync(tarball).size < 10_000_000, 'half of it is the empty database of the weather');
  for (const file of files.filter((name) => name.endsWith('.md'))) {
    const text = readFileSync(path.join(installed, file), 'utf8').replaceAll(/```.*?```/gs, '');
    for (const [, target = ''] of text.matchAll(/\]\(([^()\s]+)\)/g))
      if (!/^(?:[a-z]+:|#)/.test(target)) t.ok(leadsIn(file, target), `${file}: the target ${target} exists`);
  }
});

t.test('the notices and the bill of materials list every bundled package', async (t) => {
  const bundled = new Set<string>();
  const modules = path.join(installed, 'dist/bundle/modules');
  for (const file of filesIn(modules)) {
    const text = readFileSync(path.join(modules, file), 'utf8');
    // esbuild prints the name of each file before its code.
    for (const [, name = ''] of text.matchAll(/^\/\/ (?:.*\/)?node_modules\/((?:@[^/]+\/)?[^/]+)\/\S+$/gm))
      bundled.add(name);
  }
  t.ok(bundled.size > 200, `${bundled.size} packages`);
  const notices = readFileSync(path.join(installed, 'dist/THIRD-PARTY-NOTICES.txt'), 'utf8');
  const noticed = new Set([...notices.matchAll(/^(\S+)@\d\S* \(.+\)$/gm)].map(([, name]) => name));
  const bill = JSON.parse(readFileSync(tarball.replace(/\.tgz$/, '.cdx.json'), 'utf8')) as {
    bomFormat: string;
    components: { name: string; version: string }[];
  };
  t.equal(bill.bomFormat, 'CycloneDX');
  const components = new Set(bill.components.map(({ name }) => name));
  for (const name of bundled) {
    t.ok(noticed.has(name), `${name} is in the notices`);
    t.ok(components.has(name), `${name} is in the bill of materials`);
  }
  t.notOk(components.has('typescript') || components.has('lmdb'), 'and nothing else is');
  t.match(notices, 'Permission is hereby granted');
  t.match(notices, 'Apache License');
});

t.test('a setting that requires an optional package names the command that installs it', async (t) => {
  await waybill('init', 'uploads', '--out', 'optional.yml');
  const file = path.join(place, 'optional.yml');
  const text = readFileSync(file, 'utf8').replace('# queue:', 'queue:');
  writeFileSync(file, `${text}databases: [{ name: embedded, driver: pglite, directory: ./database }]\n`);
  const { devDependencies: tested } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    devDependencies: Record<string, string>;
  };
  const both = ['lmdb', '@electric-sql/pglite'].map((name) => `${name}@${tested[name] ?? ''}`).join(' ');
  const [queue = '', database = ''] = both.split(' ');
  for (const [command, wanted] of [
    [['config', 'check'], both],
    [['serve'], queue],
    [['weather', 'feed', 'records'], database],
    [['weather'], database],
  ] as const) {
    const failed = await waybill(...command, '--config', file).catch((error: unknown) => error);
    const { code, stderr } = failed as { code: number; stderr: string };
    // The weather reader has its own output format and exit code.
    t.equal(code, command[0] === 'weather' && command.length === 1 ? 1 : 2, command.join(' '));
    t.match(stderr, /needs the package (?:lmdb|@electric-sql\/pglite).* not installed/);
    t.match(stderr, ` npm install --ignore-scripts --prefix ${prefix} ${wanted}\n`);
  }
  await npm('install', '--ignore-scripts', ...both.split(' '));
  t.match(await waybill('config', 'check', '--config', file), 'valid');
});

t.test('npm pack in a clone packs the same files', async (t) => {
  const args = ['pack', '--ignore-scripts', '--dry-run', '--json'];
  const [packed] = JSON.parse((await run('npm', args, { maxBuffer: 64 << 20 })).stdout) as [
    { files: { path: string }[] },
  ];
  t.same(packed.files.map((file) => file.path).sort(), filesIn(installed).sort());
});

t.test('it publishes, serves weather in three formats, and shows a scene map', async (t) => {
  t.match(await waybill('--version'), /^\d+\.\d+\.\d+/);
  await waybill('init', 'uploads', '--out', 'c.yml');
  const file = path.join(place, 'c.yml');
  t.match(await waybill('config', 'check', '--config', 'c.yml'), 'valid');
  writeFileSync(file, completed(readFileSync(file, 'utf8')));
  cpSync('test/fixtures/weather', path.join(place, 'records'), { recursive: true });
  await waybill('weather', 'feed', '--config', 'c.yml', '--create-tables', 'records');
  const { url, process: daemon } = await startDaemon(t, place, { ...env, WAYBILL_TOKEN: token }, bin);
  const site = path.join(place, 'site');
  mkdirSync(site);
  cpSync('examples/scene-maps/session-42.json', path.join(site, 'scene-map.json'));
  const files = [{ path: 'scene-map.json', kind: 'scene_map' }, { path: 'page.html' }];
  writeFileSync(path.join(site, 'manifest.json'), manifest(files, '2026-11-20T01:02:03Z', { name: 'n' }));
  writeFileSync(path.join(site, 'page.html'), '<p>page</p>');
  await waybill('push', 'site', '--to', url, '--pipeline', 'uploads');
  t.equal(readFileSync(path.join(place, 'public/n/page.html'), 'utf8'), '<p>page</p>');
  t.match(readFileSync(path.join(place, 'public/n/index.html'), 'utf8'), /page\.html/);
  t.match(readFileSync(path.join(place, 'public/n/scene-map.html'), 'utf8'), /<!doctype html>/i);
  for (const [format, start] of [
    ['json', /^\{/],
    ['xml', /^<\?xml/],
    ['text', /\w/],
  ] as const) {
    const response = await fetch(new URL(`observations?format=${format}`, url));
    t.equal(response.status, 200, format);
    t.match(await response.text(), start);
  }
  daemon.kill('SIGTERM');
  await once(daemon, 'exit');
  t.equal(daemon.exitCode, 0);
});

t.test('uninstalling leaves no files', async (t) => {
  await npm('uninstall', 'waybill');
  t.notOk(existsSync(installed));
  t.notOk(existsSync(bin));
});
