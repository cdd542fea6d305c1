import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { startDaemon } from './cli/daemon.ts';
import { packWaybill } from './cli/packed.ts';
import { manifest } from './cli/process.ts';
import { startNpmRegistry } from './services/npm-registry.ts';

/*
 * The package without a clone: packed, installed from a registry into an empty prefix, used from there, and
 * uninstalled.
 */

const run = promisify(execFile);
const token = 'a-token-of-this-test-alone';
const place = t.testdir({ prefix: {} });
const prefix = path.join(place, 'prefix');
const installed = path.join(prefix, 'node_modules', 'waybill');
const tarball = packWaybill(place);
const registry = await startNpmRegistry(t, tarball);

/** The configuration that `waybill init` wrote, with weather and scene maps, on a free port. */
function completed(text: string): string {
  return `${text
    .replace('127.0.0.1:8080', '127.0.0.1:0')
    .replace('index: auto', 'index: auto\n          scene_map_page: true')}
databases: [{ name: embedded, driver: pglite, directory: ./database }]
`;
}

async function npm(...args: string[]): Promise<string> {
  const own = ['--prefix', prefix, '--registry', registry, '--no-audit', '--no-fund', '--loglevel', 'error'];
  const env = { ...process.env, NO_PROXY: '127.0.0.1', no_proxy: '127.0.0.1' };
  return (await run('npm', [...args, ...own], { cwd: prefix, env, maxBuffer: 64 << 20 })).stdout;
}

function filesIn(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)));
}

/** Whether there is what a link in a packed file names, without the place in it. */
function leadsIn(file: string, target: string): boolean {
  return existsSync(path.join(installed, path.dirname(file), target.replace(/#.*/, '')));
}

const bin = path.join(prefix, 'node_modules', '.bin', 'waybill');
const env = { PATH: process.env['PATH'] ?? '', HOME: place };
const waybill = async (...args: string[]): Promise<string> =>
  (await run(bin, args, { cwd: place, env: { ...env, WAYBILL_TOKEN: token } })).stdout;

t.test('npm installs every dependency in the tested version, and none of development', async (t) => {
  // npm prints nothing while it builds native packages, and a file that prints nothing for minutes is killed.
  const progress = setInterval(() => t.comment('npm installs'), 30_000);
  await npm('install', 'waybill').finally(() => clearInterval(progress));
  const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
    packages: Record<string, { version: string; dev?: boolean }>;
  };
  const found = filesIn(path.join(installed, 'node_modules'))
    .filter((file) =>
      /^(?:(?:@[^/]+\/)?[^/]+\/)(?:node_modules\/(?:@[^/]+\/)?[^/]+\/)*package\.json$/.test(file),
    )
    .map((file) => path.dirname(file));
  t.ok(found.length > 150, `${found.length} packages`);
  for (const name of found) {
    const { version } = JSON.parse(
      readFileSync(path.join(installed, 'node_modules', name, 'package.json'), 'utf8'),
    ) as { version: string };
    const locked = lock.packages[`node_modules/${name}`];
    t.equal(version, locked?.version, name);
    t.not(locked?.dev, true, `${name} is not of development alone`);
  }
  t.same(
    readdirSync(path.join(prefix, 'node_modules')).filter((name) => !name.startsWith('.')),
    ['waybill'],
  );
});

t.test('the package has the files that users need, and its links lead to files in it', async (t) => {
  const files = filesIn(installed).filter((file) => !file.startsWith('node_modules'));
  t.same(
    files.filter((file) =>
      /\.(?:map|cache|tsbuildinfo|made-by)$|^(?:test|scripts|bench|src)\/|^dist\/\./.test(file),
    ),
    [],
  );
  t.ok(statSync(tarball).size < 8_000_000, 'most of it is the empty database of the weather');
  for (const file of files.filter((name) => name.endsWith('.md'))) {
    const text = readFileSync(path.join(installed, file), 'utf8').replaceAll(/```.*?```/gs, '');
    for (const [, target = ''] of text.matchAll(/\]\(([^()\s]+)\)/g))
      if (!/^(?:[a-z]+:|#)/.test(target)) t.ok(leadsIn(file, target), `${file}: ${target} leads somewhere`);
  }
  const bill = JSON.parse(readFileSync(tarball.replace(/\.tgz$/, '.cdx.json'), 'utf8')) as {
    bomFormat: string;
    components: { name: string }[];
  };
  t.equal(bill.bomFormat, 'CycloneDX');
  const components = new Set(bill.components.map(({ name }) => name));
  t.ok(components.has('express') && !components.has('tap') && !components.has('typescript'));
});

t.test('npm pack in a clone packs the same files', async (t) => {
  const args = ['pack', '--ignore-scripts', '--dry-run', '--json'];
  const [packed] = JSON.parse((await run('npm', args, { maxBuffer: 64 << 20 })).stdout) as [
    { files: { path: string }[] },
  ];
  // `prepack` adds the exact versions, and would add them to this clone here.
  const others = /^(?:node_modules\/|npm-shrinkwrap\.json$)/;
  const files = filesIn(installed).filter((file) => !others.test(file));
  t.same(packed.files.map((file) => file.path).sort(), files.sort());
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

t.test('nothing of it is left once it is uninstalled', async (t) => {
  await npm('uninstall', 'waybill');
  t.notOk(existsSync(installed));
  t.notOk(existsSync(bin));
});
