import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readAll, writeBundle } from './bundle-files.ts';
import { compare, type Contender, goal, print } from './measure.ts';

/**
 * Local to local, compared with `rclone copy` of the same files. waybill hashes every byte, publishes through
 * a catalog and has everything on disk when it exits. rclone copies and leaves the data in the page cache.
 * Followed by `sync --file-system` and `rclone check`, rclone gives about the same guarantees.
 */
export async function local(): Promise<boolean> {
  requireRclone();
  // Next to the system's temporary directory if that is in memory: the benchmark measures a disk.
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
 * The processor time of open directories (`local/directories.ts` of storage), compared with paths, which are
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

/** The file installed as `waybill`. */
export const waybill = [process.execPath, 'dist/bundle/waybill.cjs'];
const helpCommand = [...waybill, '--help'];

interface Ratios {
  /** Required speed relative to `rclone copy` alone. */
  copy: number;
  /**
   * Required speed relative to an rclone run with the same guarantees: the copy is on disk, and every byte
   * was compared.
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
  // The goal for work that is dominated by calls, not by bytes.
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

/** The minimum that any Node.js program needs. `nothing` follows a `publish`. */
function bareCalls(place: Place, work: 'publish' | 'nothing'): Contender {
  const destination = path.join(place.root, 'floor');
  return {
    name: 'the bare calls in Node',
    command: [process.execPath, 'bench/local-floor.mjs', work, place.bundle, destination],
    ...(work === 'publish' ? { before: () => fresh(place, destination) } : {}),
  };
}

/** `times` as many files may take `times` as long, and at most `peakMiB`. */
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
  /** Whether the files are small enough to keep every round's output until the end. */
  isSmall: boolean;
}

/**
 * Creates a bundle of random files with a manifest that declares their digests, and a configuration that
 * publishes it.
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
  return { root, bundle, config, ours, theirs: path.join(root, 'theirs'), isSmall: count * size < 1 << 27 };
}

function runOf(config: string): string[] {
  return [...waybill, 'run', '--config', config];
}

/**
 * Starts every contender from the same state: an empty destination, no pending writes, and the source in the
 * page cache. Earlier output is moved away and removed at the end. For half a minute after a removal, ext4
 * skips the freed inodes one by one, which would slow the measurement.
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
