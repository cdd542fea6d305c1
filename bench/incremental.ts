import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { writeBundle } from './bundle-files.ts';
import { requireRclone, waybill } from './local.ts';
import { compare, type Contender, goal, print } from './measure.ts';
import type { RemotePlace } from './remote.ts';
import { onS3 } from './s3.ts';
import { onSftp } from './sftp.ts';

const files = 5_000;
const bytes = 8 << 10;

/**
 * Changes one of 5,000 files and publishes them to a local directory, SFTP and S3. Compares this with `rclone
 * sync`, which only compares sizes and times by default, and with publishing when nothing has changed.
 */
export async function incremental(): Promise<boolean> {
  requireRclone();
  const reached = [
    onDisk((place) => oneChanged({ ...place, hasFloor: true }, { rclone: 1, nothing: 1.3 })),
    await onSftp((place) => oneChanged(place, { rclone: 2 })),
    await onS3((place) => oneChanged(place, { rclone: 5 })),
  ];
  return reached.every(Boolean);
}

interface Goals {
  /** The required speed, as a multiple of the fastest `rclone sync`. */
  rclone: number;
  /** The maximum processor time, as a multiple of publishing when nothing has changed. */
  nothing?: number;
}

/** `hasFloor` also measures the minimum that a Node.js program needs. */
type Place = RemotePlace & { hasFloor?: boolean };

function oneChanged(place: Place, goals: Goals): boolean {
  const root = mkdtempSync(path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-'));
  try {
    const bundle = path.join(root, 'source', 'bundle');
    const config = path.join(root, 'config.yml');
    writeBundle(bundle, files, bytes);
    writeFileSync(
      config,
      `pipelines:\n  - id: bench\n    source: {backend: local, path: ./source}\n    destinations:\n      - {id: out, ${place.destination('ours')}}\n`,
    );
    const run = [...waybill, 'run', '--config', config];
    const sync = (flags: readonly string[]): string[] => [
      'rclone',
      'sync',
      bundle,
      place.rclone('theirs'),
      ...flags,
    ];
    for (const directory of ['ours', 'theirs']) place.clear(directory);
    const fastest = place.rclones.at(-1)?.flags ?? [];
    for (const command of [run, sync(fastest)]) spawnSync(command[0]!, command.slice(1), { stdio: 'ignore' });
    const floor = place.hasFloor === true ? bareCalls(bundle, place.rclone('floor')) : null;
    if (floor !== null) {
      place.clear('floor');
      spawnSync(floor('publish')[0]!, floor('publish').slice(1), { stdio: 'inherit' });
    }
    const contenders: Contender[] = [
      { name: 'waybill run, 1 changed', command: run, before: () => changeOne(bundle) },
      { name: 'waybill run, nothing to do', command: run },
      ...place.rclones.map(({ flags, isSlowPerFile = false }) => ({
        name: ['rclone sync', ...flags].join(' '),
        command: sync(flags),
        before: () => changeOne(bundle),
        isSlow: isSlowPerFile,
      })),
      ...(floor === null
        ? []
        : [{ name: floorName, command: floor('change'), before: () => changeOne(bundle) }]),
    ];
    return judge(place.name, compare(contenders), goals);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

const floorName = 'the bare calls in Node';

function bareCalls(bundle: string, destination: string): (work: 'publish' | 'change') => string[] {
  return (work) => [process.execPath, 'bench/local-floor.mjs', work, bundle, destination];
}

function judge(name: string, summaries: ReturnType<typeof compare>, goals: Goals): boolean {
  const [changed, nothing, ...others] = summaries;
  const rclones = others.filter(({ name }) => name !== floorName);
  print(`1 of ${files.toLocaleString('en')} files changed → ${name}`, summaries);
  const best = Math.min(...rclones.map(({ seconds }) => seconds));
  const faster = best / changed!.seconds;
  const dearer = changed!.cpuSeconds / nothing!.cpuSeconds;
  const isFaster = goal(
    `${faster.toFixed(2)} × rclone sync at its fastest (goal ${goals.rclone} ×)`,
    faster >= goals.rclone,
  );
  const work = Math.min(...rclones.map(({ cpuSeconds }) => cpuSeconds)) / changed!.cpuSeconds;
  console.log(`  ${work.toFixed(2)} × by processor time`);
  const limit = goals.nothing;
  const said = `${dearer.toFixed(2)} × the processor time of nothing to do`;
  if (limit === undefined) console.log(`  ${said}`);
  return limit === undefined ? isFaster : goal(`${said} (goal ${limit} ×)`, dearer <= limit) && isFaster;
}

/** Changes the content of one file but not its size, and updates its digest in the manifest. */
function changeOne(bundle: string): void {
  const manifest = path.join(bundle, 'manifest.json');
  const document = JSON.parse(readFileSync(manifest, 'utf8')) as {
    files: { path: string; digest: string }[];
  };
  const file = document.files[files / 2]!;
  const content = randomBytes(bytes);
  writeFileSync(path.join(bundle, file.path), content);
  file.digest = `sha256:${createHash('sha256').update(content).digest('hex')}`;
  writeFileSync(manifest, JSON.stringify(document));
}

function onDisk(work: (place: RemotePlace) => boolean): boolean {
  const root = mkdtempSync(path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-'));
  try {
    return work({
      name: 'a local directory',
      destination: (directory) => `backend: local, path: "${root}/${directory}"`,
      rclone: (directory) => path.join(root, directory),
      rclones: [{ flags: [] }, { flags: ['--transfers', '16', '--checkers', '16'] }],
      clear: (directory) => {
        rmSync(path.join(root, directory), { recursive: true, force: true });
        mkdirSync(path.join(root, directory));
      },
    });
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}
