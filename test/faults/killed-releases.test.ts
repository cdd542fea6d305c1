import { spawn, spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import t, { type Test } from 'tap';
import { generator, howMany, seed } from '../support/sampling.ts';

/**
 * The built program, killed with SIGKILL while it publishes releases, goes back, goes forward, and takes all
 * of it down: at moments drawn from a seed over the length of the command. At once after the kill readers
 * have one version, whole, or nothing if it was being taken down; the next run finishes it without force.
 */

const program = path.resolve('dist/cli/main.js');
const allKills = 300;
const kills = howMany(allKills, 6);
const filesInBundle = 30;

interface Place {
  site: string;
  source: string;
  config: string;
}

function layOut(t: Test): Place {
  const root = t.testdir({
    source: { bundle: {} },
    'config.yml': [
      'pipelines:',
      '  - id: maps',
      '    source: {backend: local, path: ./source}',
      '    destinations:',
      '      - {id: web, backend: local, path: ./out, mapping: fixed, workflow: replacement, layout: releases,',
      '         releases: {keep: 2, linger: 0s}, outputs: {checksums: true}}',
      '',
    ].join('\n'),
  });
  return {
    site: path.join(root, 'out'),
    source: path.join(root, 'source', 'bundle'),
    config: path.join(root, 'config.yml'),
  };
}

/** A third of the files say which version they are of; the others are the same in each. */
function writeBundle({ source }: Place, version: number): void {
  const files = Array.from({ length: filesInBundle }, (_, index) => {
    const name = `d${index % 4}/file-${index}`;
    mkdirSync(path.dirname(path.join(source, name)), { recursive: true });
    writeFileSync(path.join(source, name), index % 3 === 0 ? `version ${version}` : 'the same in each');
    return name;
  });
  const created = new Date(Date.parse('2026-11-20T00:00:00Z') + version * 1000).toISOString();
  writeFileSync(path.join(source, 'manifest.json'), JSON.stringify({ created, files }));
}

/** The one version that readers have; null if they have nothing. Throws if they have no whole one. */
function versionRead({ site }: Place): string | null {
  let release: string;
  try {
    release = path.join(site, readlinkSync(path.join(site, 'current')));
  } catch {
    return null;
  }
  const names = readdirSync(release, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.startsWith('file-'))
    .map((entry) => path.join(entry.parentPath, entry.name));
  const texts = new Set(names.map((name) => readFileSync(name, 'utf8')));
  texts.delete('the same in each');
  const [version, ...others] = texts;
  if (names.length !== filesInBundle || version === undefined || others.length > 0)
    throw new Error(`readers have ${names.length} files of ${[...texts].join(', ')}`);
  return version;
}

function waybill(...args: string[]): SpawnSyncReturns<string> {
  return spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' });
}

async function killed(args: readonly string[], afterMs: number): Promise<void> {
  const child = spawn(process.execPath, [program, ...args], { stdio: 'ignore' });
  const ended = once(child, 'exit');
  await Promise.race([new Promise((resolve) => setTimeout(resolve, afterMs)), ended]);
  child.kill('SIGKILL');
  await ended;
}

t.test(`${kills} kills`, async (t) => {
  t.comment(`seed ${seed}`);
  const random = generator('kills of releases');
  const place = layOut(t);
  const where = ['--config', place.config];
  const named = [...where, '--pipeline', 'maps', '--destination', 'web'];
  const commands: Record<string, string[]> = {
    run: ['run', ...where],
    rollback: ['releases', 'rollback', ...named],
    resume: ['releases', 'resume', ...named],
    unpublish: ['unpublish', '.', ...named],
  };
  let version = 1;
  writeBundle(place, version);
  const started = performance.now();
  t.equal(waybill('run', ...where).status, 0);
  const length = performance.now() - started;
  let survived = 0;
  for (let kill = 1; kill <= kills; kill += 1) {
    // Most of what happens are publications, and the first of each kind comes early.
    const verb = ['run', 'rollback', 'unpublish', 'run', 'resume', 'run'][kill % 6] ?? 'run';
    if (verb === 'run') version += 1;
    if (verb === 'run') writeBundle(place, version);
    const after = random() * length;
    await killed(commands[verb] ?? [], after);
    const when = `kill ${kill} of ${kills}, ${verb}, after ${after.toFixed(0)} of ${length.toFixed(0)} ms`;
    const read = versionRead(place);
    if (verb !== 'unpublish') t.not(read, null, `${when}: readers have a version`);
    version += 1;
    writeBundle(place, version);
    const rerun = waybill('run', ...where);
    t.equal(rerun.status, 0, `${when}: the next run succeeds without force\n${rerun.stdout}${rerun.stderr}`);
    t.equal(versionRead(place), `version ${version}`, `${when}: its version is the current one`);
    t.match(waybill('run', ...where).stdout, /skip_same=1/, `${when}: one more run has nothing to do`);
    const verified = waybill('verify', ...where);
    t.equal(verified.status, 0, `${when}: every recorded byte is there\n${verified.stdout}`);
    const left = readdirSync(place.site, { recursive: true, encoding: 'utf8' }).filter((name) =>
      /\.publisher\.(tmp|lock)/.test(name),
    );
    t.same(left, [], `${when}: nothing is left behind`);
    const stored = readdirSync(path.join(place.site, 'releases'));
    t.ok(stored.length <= 3, `${when}: ${stored.length} releases are kept`);
    survived += 1;
  }
  t.equal(survived, kills);
  t.comment(`told: ${survived} kills survived (releases; ${allKills} in CI)`);
});
