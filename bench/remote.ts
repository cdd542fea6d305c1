import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readAll, writeBundle } from './bundle-files.ts';
import { requireRclone, waybill } from './local.ts';
import { compare, type Contender, goal, print, type Summary } from './measure.ts';

/** A server to publish to, and how to use it with waybill and rclone. */
export interface RemotePlace {
  name: string;
  /**
   * Returns the settings of the destination in waybill's configuration, without the id, as a YAML flow
   * mapping.
   */
  destination: (directory: string) => string;
  /** Returns the same destination in rclone's notation. */
  rclone: (directory: string) => string;
  /**
   * The variants of rclone to compare with. `isSlowPerFile` means that the server runs a command for every
   * file.
   */
  rclones: readonly { flags: readonly string[]; isSlowPerFile?: boolean }[];
  /** Deletes everything at the destination. */
  clear: (directory: string) => void;
}

/** The required speed, as a multiple of the fastest rclone variant. */
export interface RemoteGoals {
  /** By default, only rclone without any options counts for the large file. */
  large: { least: number; against?: 'fastest' };
  small: number;
  nothing: number;
}

/**
 * Publishes to a server, compared with `rclone copy`. Then publishes again without changes, compared with
 * `rclone sync`.
 */
export function remote(place: RemotePlace, goals: RemoteGoals): boolean {
  return inPlace((root) => {
    const large = largeFile(place, root, goals.large);
    const small = publication(place, root, '5,000 files of 8 KiB', 5_000, 8 << 10, {
      least: goals.small,
      against: 'fastest',
    });
    const nothing = nothingToDo(place, root, 5_000, goals.nothing);
    return large && small && nothing;
  });
}

/** Only publishes a large file. */
export function remoteLarge(place: RemotePlace, large: RemoteGoals['large']): boolean {
  return inPlace((root) => largeFile(place, root, large));
}

function largeFile(place: RemotePlace, root: string, goal: RemoteGoals['large']): boolean {
  return publication(place, root, 'one file of 1 GiB', 1, 1 << 30, goal);
}

function inPlace(work: (root: string) => boolean): boolean {
  requireRclone();
  const root = mkdtempSync(path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-'));
  try {
    return work(root);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

const ours = 'ours';
const theirs = 'theirs';

function publication(
  place: RemotePlace,
  root: string,
  title: string,
  count: number,
  size: number,
  { least, against = 'defaults' }: { least: number; against?: 'defaults' | 'fastest' },
): boolean {
  const { bundle, config } = layOut(place, root, count, size);
  const start = (directory: string) => (): void => {
    place.clear(directory);
    spawnSync('sync');
    readAll(bundle);
  };
  const contenders: Contender[] = [
    { name: 'waybill run', command: [...waybill, 'run', '--config', config], before: start(ours) },
    ...place.rclones.map(({ flags, isSlowPerFile = false }) => ({
      name: ['rclone copy', ...flags].join(' '),
      command: ['rclone', 'copy', bundle, place.rclone(theirs), ...flags],
      before: start(theirs),
      isSlow: isSlowPerFile && count > 1,
    })),
  ];
  return judge(`${title} → ${place.name}: publish`, compare(contenders), least, 'rclone copy', against);
}

/** Publishes a bundle that has already been published before, so there is nothing to do. */
function nothingToDo(place: RemotePlace, root: string, count: number, ratio: number): boolean {
  const bundle = path.join(root, `${count}`, 'source', 'bundle');
  const config = path.join(root, `${count}`, 'config.yml');
  for (const command of [
    [...waybill, 'run', '--config', config],
    ['rclone', 'copy', bundle, place.rclone(theirs)],
  ])
    spawnSync(command[0]!, command.slice(1), { stdio: 'ignore' });
  const contenders: Contender[] = [
    { name: 'waybill run', command: [...waybill, 'run', '--config', config] },
    ...place.rclones.map(({ flags }) => ({
      name: ['rclone sync', ...flags].join(' '),
      command: ['rclone', 'sync', bundle, place.rclone(theirs), ...flags],
    })),
  ];
  const title = `${count.toLocaleString('en')} files → ${place.name}: nothing to do`;
  return judge(title, compare(contenders), ratio, 'rclone sync', 'fastest');
}

function judge(
  title: string,
  [waybill, ...rclones]: Summary[],
  ratio: number,
  what: string,
  against: 'defaults' | 'fastest',
): boolean {
  print(title, [waybill!, ...rclones]);
  const [defaults] = rclones;
  const fastest = rclones.reduce((best, next) => (next.seconds < best.seconds ? next : best));
  const byDefault = defaults!.seconds / waybill!.seconds;
  const atBest = fastest.seconds / waybill!.seconds;
  const factor = against === 'defaults' ? byDefault : atBest;
  const isFast = goal(
    `${byDefault.toFixed(2)} × ${what} with its defaults, ${atBest.toFixed(2)} × at its fastest (goal ${ratio} × its ${against})`,
    factor >= ratio,
  );
  const { peakMiB } = waybill!;
  return goal(`peak memory ${peakMiB.toFixed(0)} MiB (goal under 250)`, peakMiB < 250) && isFast;
}

export function layOut(
  place: RemotePlace,
  root: string,
  count: number,
  size: number,
): { bundle: string; config: string } {
  const home = path.join(root, `${count}`);
  const bundle = path.join(home, 'source', 'bundle');
  mkdirSync(home);
  writeBundle(bundle, count, size);
  const config = path.join(home, 'config.yml');
  writeFileSync(
    config,
    `pipelines:\n  - id: bench\n    source: {backend: local, path: ./source}\n    destinations:\n      - {id: out, ${place.destination(ours)}}\n`,
  );
  return { bundle, config };
}
