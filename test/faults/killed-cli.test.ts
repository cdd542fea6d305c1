import { spawn, spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import t, { type Test } from 'tap';
import { generator, howMany, seed, share } from '../support/sampling.ts';

/**
 * Kills the built program with SIGKILL during publications: at random times, and after each step that is
 * visible in the destination. Then the next run completes the publication without force, `verify` finds
 * every byte, and another run changes nothing.
 */

const program = path.resolve('dist/cli/main.js');
const allKills = 24;
const randomKills = howMany(allKills, 4);
const filesInBundle = 120;
let survived = 0;

t.test('survives kills at random times', async (t) => {
  t.comment(`seed ${seed}`);
  const random = generator('moments of kills');
  const place = layOut(t);
  const started = performance.now();
  t.equal(run(place).status, 0);
  const length = performance.now() - started;
  let version = 1;
  for (let kill = 1; kill <= randomKills; kill += 1) {
    version += 1;
    writeBundle(place, version);
    const after = random() * length;
    await killedAfter(place, async () => new Promise((resolve) => setTimeout(resolve, after)));
    check(
      t,
      place,
      version,
      `kill ${kill} of ${randomKills}, after ${after.toFixed(0)} of ${length.toFixed(0)} ms`,
    );
  }
});

for (const [step, shows] of Object.entries({
  'the lease': (name: string) => name.endsWith('.publisher.lock'),
  'the intent': (name: string) => name.endsWith('.publisher.json'),
  'the staging': (name: string) => name.includes('output-'),
  'the first output in place': (name: string) => /^bundle\/(d\d\/)?file-\d+$/.test(name),
}))
  t.test(`survives a kill after ${step} appears in the destination`, async (t) => {
    const place = layOut(t);
    // Polled, because Node's recursive watcher throws if directories below it are created and removed.
    let isOver = false;
    const wasKilled = await killedAfter(place, async () => {
      while (!isOver && !namesIn(path.join(place.root, 'out')).some(shows))
        await new Promise((resolve) => setTimeout(resolve, 1));
    });
    isOver = true;
    t.comment(wasKilled ? 'killed' : 'the run ended before the signal came');
    check(t, place, 1, step);
  });

t.test('counts the kills that it survived', async (t) => {
  t.equal(survived, randomKills + 4, `${survived} kills survived`);
  t.comment(`report: ${share(survived, allKills + 4)} kills survived`);
});

/** Empty if a directory is removed while it is read. */
function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory, { recursive: true, encoding: 'utf8' });
  } catch {
    return [];
  }
}

interface Place {
  root: string;
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
      '      - {id: web, backend: local, path: ./out, workflow: replacement, outputs: {checksums: true, index: true}}',
      '',
    ].join('\n'),
  });
  const place = { root, config: path.join(root, 'config.yml') };
  writeBundle(place, 1);
  return place;
}

/** In version n, half of the files have other bytes, and a tenth have other names. */
function writeBundle({ root }: Place, version: number): void {
  const names = Array.from({ length: filesInBundle }, (_, index) => {
    const name = index % 10 === 0 ? `file-${index + (version % 3) * 1000}` : `d${index % 4}/file-${index}`;
    const file = path.join(root, 'source/bundle', name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, `${index % 2 === 0 ? version : 0} ${index} `.repeat(500));
    return name;
  });
  const created = new Date(Date.parse('2026-11-20T00:00:00Z') + version * 1000).toISOString();
  writeFileSync(path.join(root, 'source/bundle/manifest.json'), JSON.stringify({ created, files: names }));
}

async function killedAfter({ config }: Place, moment: () => Promise<void>): Promise<boolean> {
  const child = spawn(process.execPath, [program, 'run', '--config', config], { stdio: 'ignore' });
  const ended = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  await Promise.race([moment(), ended]);
  child.kill('SIGKILL');
  return (await ended)[1] === 'SIGKILL';
}

function check(t: Test, place: Place, version: number, when: string): void {
  const rerun = run(place);
  t.equal(rerun.status, 0, `${when}: the next run succeeds without force\n${rerun.stderr}`);
  const verified = waybill('verify', '--config', place.config);
  t.equal(verified.status, 0, `${when}: every recorded byte exists\n${verified.stdout}${verified.stderr}`);
  const again = JSON.parse(waybill('run', '--config', place.config, '--format', 'json').stdout) as {
    counters: Record<string, number>;
  };
  t.equal(again.counters['skip_same'], 1, `${when}: one more run changes nothing`);
  const out = path.join(place.root, 'out');
  const left = readdirSync(out, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\.publisher\.(tmp|lock)/.test(name),
  );
  t.same(left, [], `${when}: no other files are left`);
  const { files } = JSON.parse(
    readFileSync(path.join(place.root, 'source/bundle/manifest.json'), 'utf8'),
  ) as { files: string[] };
  const differing = files.filter(
    (name) => digest(path.join(place.root, 'source/bundle', name)) !== digest(path.join(out, 'bundle', name)),
  );
  t.same(differing, [], `${when}: version ${version} is published`);
  if (rerun.status === 0 && differing.length === 0) survived += 1;
}

function digest(file: string): string | null {
  return existsSync(file) ? createHash('sha256').update(readFileSync(file)).digest('hex') : null;
}

function run({ config }: Place): SpawnSyncReturns<string> {
  return waybill('run', '--config', config);
}

function waybill(...args: string[]): SpawnSyncReturns<string> {
  return spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' });
}
