import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readAll, writeBundle } from './bundle-files.ts';
import { compare, type Contender, goal, print } from './measure.ts';

/**
 * Publishes from one local directory to another, compared with `rclone copy`. waybill hashes all files,
 * updates a catalog, and has written everything to disk when it exits. rclone just copies the files and
 * leaves them in the page cache. To get about the same guarantees, it has to be followed by `sync
 * --file-system` and `rclone check`.
 */
export async function local(): Promise<boolean> {
  requireRclone();
  // Do not use the temporary directory if it is in memory, because this is supposed to measure a disk.
  const root = path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-local');
  rmSync(root, { recursive: true, force: true });
  try {
    const reached = [
      copies(root, 'one file of 1 GiB', 1, 1 << 30, { copy: 1.4, safe: 1.4 }),
      copies(root, '5,000 files of 8 KiB', 5_000, 8 << 10, { copy: 1, safe: 1.5 }),
      growth(root, 1 << 10, { files: 5_000, times: 10 }, { times: 11, peakMiB: 300 }),
      help(),
    ];
    return reached.every(Boolean);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/**
 * The processor time of open directories (`local-directories.ts`), compared with paths, which are
 * used where `/proc` is missing. 5,000 files of 8 KiB.
 */
export async function handles(): Promise<boolean> {
  const root = path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-handles');
  rmSync(root, { recursive: true, force: true });
  try {
    const place = layOut(root, 5_000, 8 << 10);
    const command = runOf(place.config);
    const [node = '', ...args] = command;
    const withPaths = [node, '--require', path.resolve('bench/without-proc.cjs'), ...args];
    const compared = (title: string, before?: () => void): boolean => {
      const contenders = [
        { name: 'open directories', command },
        { name: 'paths', command: withPaths },
      ].map((each) => (before === undefined ? each : { ...each, before }));
      const [ours, paths] = compare(contenders);
      print(`5,000 files: ${title}`, [ours!, paths!]);
      const factor = ours!.cpuSeconds / paths!.cpuSeconds;
      return goal(
        `${title}: ${factor.toFixed(2)} × the processor time (goal at most 1.05 ×)`,
        factor <= 1.05,
      );
    };
    return [compared('publish', () => fresh(place, place.ours)), compared('nothing to do')].every(Boolean);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** The file that is installed as `waybill`. */
export const waybill = [process.execPath, 'dist/bundle/waybill.cjs'];
const helpCommand = [...waybill, '--help'];

interface Ratios {
  /** The required speed, as a multiple of `rclone copy`. */
  copy: number;
  /**
   * The required speed, as a multiple of rclone with the same guarantees: written to disk, and every byte
   * compared.
   */
  safe: number;
}

function copies(root: string, title: string, count: number, size: number, ratios: Ratios): boolean {
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
  const { bundle, theirs: copied } = place;
  const safely = `rclone copy "$0" "$1" && sync --file-system "$1" && rclone check --quiet "$0" "$1"`;
  const safe: Contender = {
    name: 'rclone copy, sync, check',
    command: ['sh', '-c', safely, bundle, copied],
    before: () => fresh(place, copied),
  };
  // A lower bound for work that consists mostly of system calls rather than copying data.
  const floor = (work: 'publish' | 'nothing'): Contender[] => (count > 1 ? [bareCalls(place, work)] : []);
  const [ours, theirs, equal, ...limit] = compare([publish, rclone, safe, ...floor('publish')]);
  print(`${title}: publish`, [ours!, theirs!, equal!, ...limit]);
  const faster = theirs!.seconds / ours!.seconds;
  const saferAndFaster = equal!.seconds / ours!.seconds;
  const isFaster = [
    goal(`${title}: ${faster.toFixed(2)} × rclone copy (goal ${ratios.copy} ×)`, faster >= ratios.copy),
    goal(
      `${title}: ${saferAndFaster.toFixed(2)} × rclone copy, sync and check (goal ${ratios.safe} ×)`,
      saferAndFaster >= ratios.safe,
    ),
  ].every(Boolean);
  const isSmall = goal(`peak memory ${ours!.peakMiB.toFixed(0)} MiB (goal under 150)`, ours!.peakMiB < 150);

  spawnSync(runOf(place.config)[0]!, runOf(place.config).slice(1), { stdio: 'ignore' });
  const [again, bare, ...least] = compare([
    { name: 'waybill run, nothing to do', command: runOf(place.config) },
    { name: 'waybill --help', command: helpCommand },
    ...floor('nothing'),
  ]);
  print(`${title}: nothing to do`, [again!, bare!, ...least]);
  const factor = again!.seconds / bare!.seconds;
  const isQuick = goal(
    `${title}, nothing to do: ${factor.toFixed(2)} × waybill --help (goal under 2 ×)`,
    factor < 2,
  );
  const isStillSmall = goal(
    `peak memory ${again!.peakMiB.toFixed(0)} MiB (goal under 150)`,
    again!.peakMiB < 150,
  );
  rmSync(place.root, { recursive: true, force: true });
  return isFaster && isSmall && isQuick && isStillSmall;
}

/** Measures the minimum that a Node.js program needs. With `nothing`, `publish` must have run before. */
function bareCalls(place: Place, work: 'publish' | 'nothing'): Contender {
  const destination = path.join(place.root, 'floor');
  return {
    name: 'the bare calls in Node',
    command: [process.execPath, 'bench/local-floor.mjs', work, place.bundle, destination],
    ...(work === 'publish' ? { before: () => fresh(place, destination) } : {}),
  };
}

/** With `times` as many files, this may take `times` as long, and use no more than `peakMiB` of memory. */
function growth(
  root: string,
  size: number,
  { files, times }: { files: number; times: number },
  most: { times: number; peakMiB: number },
): boolean {
  const contenders = [files, files * times].map((count): Contender => {
    const place = layOut(path.join(root, `growth-${count}`), count, size);
    const name = `${count.toLocaleString('en')} files of ${size >> 10} KiB`;
    return { name, command: runOf(place.config), before: () => fresh(place, place.ours) };
  });
  const [few, many] = compare(contenders, 3);
  print('more files: publish', [few!, many!]);
  const longer = many!.seconds / few!.seconds;
  const { peakMiB } = many!;
  return [
    goal(
      `${many!.name}: ${longer.toFixed(1)} × the time of ${few!.name} (goal at most ${most.times} ×)`,
      longer <= most.times,
    ),
    goal(
      `${many!.name}: peak memory ${peakMiB.toFixed(0)} MiB (goal under ${most.peakMiB})`,
      peakMiB < most.peakMiB,
    ),
  ].every(Boolean);
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
  const factor = ours!.seconds / node!.seconds;
  return goal(`waybill --help: ${factor.toFixed(2)} × bare node (goal at most 1.3 ×)`, factor <= 1.3);
}

interface Place {
  root: string;
  bundle: string;
  config: string;
  ours: string;
  theirs: string;
  /** Whether the output is small enough to keep all of it until the end. */
  isSmall: boolean;
}

/** Creates a bundle of random files with a manifest, and a configuration to publish it. */
function layOut(root: string, count: number, size: number): Place {
  const bundle = path.join(root, 'source', 'bundle');
  writeBundle(bundle, count, size);
  const config = path.join(root, 'config.yml');
  const ours = path.join(root, 'ours');
  writeFileSync(
    config,
    `pipelines:\n  - id: bench\n    source: {backend: local, path: ./source}\n    destinations:\n      - {id: out, backend: local, path: ./ours}\n`,
  );
  return { root, bundle, config, ours, theirs: path.join(root, 'theirs'), isSmall: count * size < 1 << 27 };
}

function runOf(config: string): string[] {
  return [...waybill, 'run', '--config', config];
}

/**
 * Prepares a round, so that all of them start in the same state: the destination is empty, nothing is waiting
 * to be written, and the source is in the page cache. Earlier output is moved out of the way instead of being
 * deleted. After deleting files, ext4 is slower for half a minute, because it skips the freed inodes one by
 * one.
 */
function fresh({ root, bundle, isSmall }: Place, destination: string): void {
  const aside = path.join(root, 'aside');
  mkdirSync(aside, { recursive: true });
  put += 1;
  if (!isSmall) rmSync(destination, { recursive: true, force: true });
  if (existsSync(destination)) renameSync(destination, path.join(aside, `${put}`));
  spawnSync('sync');
  readAll(bundle);
}
let put = 0;

export function requireRclone(): void {
  if (spawnSync('rclone', ['version'], { stdio: 'ignore' }).error !== undefined)
    throw new Error('rclone is what this bench compares with: install it (Debian: apt-get install rclone)');
  if (!existsSync('dist/cli/main.js')) throw new Error('build first: npm run build');
}
