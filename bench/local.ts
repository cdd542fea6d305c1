import { spawnSync } from 'node:child_process';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readAll, writeBundle } from './bundle-files.ts';
import { compare, goal, print, type Contender } from './measure.ts';

/**
 * Local to local, beside `rclone copy` on the same files. waybill hashes every byte, publishes through a
 * catalog and has everything on the disk when it ends; rclone copies and leaves the rest to the page cache.
 */
export async function local(): Promise<boolean> {
  requireRclone();
  // Beside the system's temporary directory where that is memory: a disk is what is measured.
  const root = path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-local');
  rmSync(root, { recursive: true, force: true });
  try {
    const reached = [
      copies(root, 'one file of 1 GiB', 1, 1 << 30, 1.4),
      copies(root, '5,000 files of 8 KiB', 5_000, 8 << 10, 1.5),
      memory(root, '50,000 files of 1 KiB', 50_000, 1 << 10, 300),
      help(),
    ];
    return reached.every(Boolean);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

export const waybill = [process.execPath, 'dist/cli/main.js'];
const helpCommand = [...waybill, '--help'];

function copies(root: string, title: string, count: number, size: number, ratio: number): boolean {
  const place = layOut(path.join(root, `${count}`), count, size);
  const publish: Contender = {
    name: 'waybill run',
    command: runOf(place.config),
    before: () => fresh(place, place.ours),
  };
  const rclone: Contender = {
    name: 'rclone copy',
    command: ['rclone', 'copy', place.bundle, place.theirs],
    before: () => fresh(place, place.theirs),
  };
  // The limit of work that consists of calls and not of bytes.
  const floor = (work: 'publish' | 'nothing'): Contender[] => (count > 1 ? [bareCalls(place, work)] : []);
  const [ours, theirs, ...limit] = compare([publish, rclone, ...floor('publish')]);
  print(`${title}: publish`, [ours!, theirs!, ...limit]);
  const faster = theirs!.seconds / ours!.seconds;
  const isFaster = goal(`${faster.toFixed(2)} × rclone copy (goal ${ratio} ×)`, faster >= ratio);
  const isSmall = goal(`peak memory ${ours!.peakMiB.toFixed(0)} MiB (goal under 150)`, ours!.peakMiB < 150);

  spawnSync(runOf(place.config)[0]!, runOf(place.config).slice(1), { stdio: 'ignore' });
  const [again, bare, ...least] = compare([
    { name: 'waybill run, nothing to do', command: runOf(place.config) },
    { name: 'waybill --help', command: helpCommand },
    ...floor('nothing'),
  ]);
  print(`${title}: nothing to do`, [again!, bare!, ...least]);
  const factor = again!.seconds / bare!.seconds;
  const isQuick = goal(`${factor.toFixed(2)} × waybill --help (goal under 2 ×)`, factor < 2);
  const isStillSmall = goal(
    `peak memory ${again!.peakMiB.toFixed(0)} MiB (goal under 150)`,
    again!.peakMiB < 150,
  );
  rmSync(place.root, { recursive: true, force: true });
  return isFaster && isSmall && isQuick && isStillSmall;
}

/** What any program on Node has to do at least; `nothing` follows a `publish`. */
function bareCalls(place: Place, work: 'publish' | 'nothing'): Contender {
  const destination = path.join(place.root, 'floor');
  return {
    name: 'the bare calls in Node',
    command: [process.execPath, 'bench/local-floor.mjs', work, place.bundle, destination],
    ...(work === 'publish' ? { before: () => fresh(place, destination) } : {}),
  };
}

function memory(root: string, title: string, count: number, size: number, limitMiB: number): boolean {
  const place = layOut(path.join(root, `${count}`), count, size);
  const [ours] = compare(
    [{ name: 'waybill run', command: runOf(place.config), before: () => fresh(place, place.ours) }],
    3,
  );
  print(`${title}: publish`, [ours!]);
  rmSync(place.root, { recursive: true, force: true });
  return goal(
    `peak memory ${ours!.peakMiB.toFixed(0)} MiB (goal under ${limitMiB})`,
    ours!.peakMiB < limitMiB,
  );
}

function help(): boolean {
  const [ours, node] = compare(
    [
      { name: 'waybill --help', command: helpCommand },
      { name: 'node -e 0', command: [process.execPath, '-e', '0'] },
    ],
    9,
  );
  print('start-up', [ours!, node!]);
  return goal(
    `waybill --help in ${(ours!.seconds * 1000).toFixed(0)} ms (goal under 150)`,
    ours!.seconds < 0.15,
  );
}

interface Place {
  root: string;
  bundle: string;
  config: string;
  ours: string;
  theirs: string;
}

/**
 * A bundle of random files with a manifest that declares their digests, and a configuration that publishes
 * it.
 */
function layOut(root: string, count: number, size: number): Place {
  const bundle = path.join(root, 'source', 'bundle');
  writeBundle(bundle, count, size);
  const config = path.join(root, 'config.yml');
  const ours = path.join(root, 'ours');
  writeFileSync(
    config,
    `pipelines:\n  - id: bench\n    source: {backend: local, path: ./source}\n    destinations:\n      - {id: out, backend: local, path: ./ours}\n`,
  );
  return { root, bundle, config, ours, theirs: path.join(root, 'theirs') };
}

function runOf(config: string): string[] {
  return [...waybill, 'run', '--config', config];
}

/**
 * Nothing at the destination, nothing left to be written back, and the source in the page cache: the same
 * start for whoever comes first.
 */
function fresh({ bundle }: Place, destination: string): void {
  rmSync(destination, { recursive: true, force: true });
  spawnSync('sync');
  readAll(bundle);
}

export function requireRclone(): void {
  if (spawnSync('rclone', ['version'], { stdio: 'ignore' }).error !== undefined)
    throw new Error('rclone is what this bench compares with: install it (Debian: apt-get install rclone)');
  if (!existsSync('dist/cli/main.js')) throw new Error('build first: npm run build');
}
