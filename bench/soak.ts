/**
 * `npm run bench -- soak [--minutes 45] [--rate 5]`: checks that the daemon does not leak anything. Uploads
 * are sent at a steady rate to a daemon with an embedded queue. One in eleven is aborted by the client.
 * Retention, releases, the limit on kept files, and `waybill prune` delete as much as is uploaded, so the
 * memory, open files, disk usage and queue must not grow.
 */
import { execFile, spawnSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { bundleTar } from '../test/fixtures/tar.ts';
import { stagedIn } from '../test/support/staged.ts';
import { send } from './client.ts';
import { type Daemon, startDaemon, token } from './daemon.ts';
import { goal } from './measure.ts';

const pipelines = 20;
const minuteMs = 60_000;
/** How far a result may grow from the middle third to the last third. The first third is a warm-up. */
const maxGrowth = 1.1;

/** The configuration of every third pipeline, and the number of different paths that are uploaded to it. */
const kinds = [
  { settings: '', isPruned: false, paths: 10 },
  { settings: 'layout: releases, releases: {keep: 2, linger: 10s}', isPruned: false, paths: 10 },
  // Pruning keeps the catalog of each path, so with a new path for each upload, it would keep growing.
  { settings: 'retention: {prune: {enabled: true, keep_latest: 100}}', isPruned: true, paths: 100 },
] as const;
const kindOf = (pipeline: number): (typeof kinds)[number] => kinds[pipeline % kinds.length] ?? kinds[0];

/** A measurement of the daemon. One is taken every minute. */
interface Sample {
  'RSS MiB': number;
  descriptors: number;
  'queue MiB': number;
  /** Files that are kept for later uploads, and their directories. */
  'kept MiB': number;
  'public MiB': number;
  'open runs': number;
  /** Uploads of open runs and of ended ones in their retention period. */
  staged: number;
  /** The disk space of one of them. */
  'KiB each': number;
}

/** Returns true if all goals were reached. */
export async function soak(args: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...args],
    options: { minutes: { type: 'string', default: '45' }, rate: { type: 'string', default: '5' } },
  });
  const [minutes, rate] = [Number(values.minutes), Number(values.rate)];
  const root = path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-soak');
  rmSync(root, { recursive: true, force: true });
  mkdirSync(root, { recursive: true });
  const daemon = await startDaemon({
    root,
    pipelines,
    http: 'queue_size: 200, retention: 2m, max_concurrency: 4',
    embedded: true,
    staging: 'keep: {size: 256KiB}',
    destinationOf: (index) => kindOf(index).settings,
  });
  try {
    const counts: Counts = { accepted: 0, aborted: 0, refused: 0, lastRefusal: '' };
    const load = setInterval(() => void uploadOne(daemon.url, counts), 1000 / rate);
    const samples: Sample[] = [];
    console.log(`\n${rate} uploads a second for ${minutes} minutes; process ${daemon.pid}`);
    const startedAt = performance.now();
    const elapsed = (): number => (performance.now() - startedAt) / minuteMs;
    while (elapsed() < minutes) {
      await Promise.all([new Promise((resolve) => setTimeout(resolve, minuteMs)), prune(root)]);
      const sample = await sampleOf(daemon, root);
      samples.push(sample);
      printRow(elapsed(), sample, samples.length === 1);
    }
    clearInterval(load);
    console.log(
      `\n${counts.accepted} accepted, ${counts.aborted} aborted, ${counts.refused} refused ${counts.lastRefusal}`,
    );
    return reachedGoals(samples, counts);
  } finally {
    await daemon.stop();
    rmSync(root, { recursive: true, force: true });
  }
}

interface Counts {
  accepted: number;
  aborted: number;
  refused: number;
  lastRefusal: string;
}

let sent = 0;

async function uploadOne(url: string, counts: Counts): Promise<void> {
  const number = sent++;
  const pipeline = number % pipelines;
  const name = `session-${Math.floor(number / pipelines) % kindOf(pipeline).paths}`;
  const body = bundleTar({ 'data.txt': `${number} `.repeat(2000), 'same.txt': 'same' }, { name });
  if (number % 11 === 10) {
    await abortUpload(url, body);
    counts.aborted += 1;
    return;
  }
  await send(url, `p${pipeline}`, body).then(
    () => (counts.accepted += 1),
    (error: unknown) => {
      counts.refused += 1;
      counts.lastRefusal = String(error);
    },
  );
}

/** Sends the first half of a bundle and then disconnects. */
function abortUpload(url: string, body: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/x-tar',
      'content-length': body.length,
    };
    const outgoing = request(`${url}v1/pipelines/p0/upload`, { method: 'POST', headers, agent: false });
    outgoing.on('error', () => undefined).on('close', () => resolve());
    outgoing.write(body.subarray(0, body.length / 2), () => outgoing.destroy());
  });
}

/** Runs `waybill prune` on all pipelines that are configured for it, one after another. */
async function prune(root: string): Promise<void> {
  const program = path.resolve('dist/bundle/waybill.cjs');
  const where = ['--config', path.join(root, 'waybill.yaml'), '--destination', 'web'];
  for (let pipeline = 0; pipeline < pipelines; pipeline += 1)
    if (kindOf(pipeline).isPruned) {
      const args = ['prune', ...where, '--pipeline', `p${pipeline}`, '--apply', '--allow-removals'];
      await promisify(execFile)(process.execPath, [program, ...args], {
        env: { ...process.env, BENCH_TOKEN: token },
      });
    }
}

async function sampleOf(daemon: Daemon, root: string): Promise<Sample> {
  // If files are deleted while du is running, it prints errors.
  const mebibytes = (name: string): number =>
    Number.parseInt(spawnSync('du', ['-sk', path.join(root, name)], { encoding: 'utf8' }).stdout) / 1024;
  const metrics = await (await fetch(`${daemon.url}metrics`)).text();
  const staged = stagedIn(path.join(root, 'staging')).length;
  const keptMiB = mebibytes('staging/content');
  const depths = [...metrics.matchAll(/^waybill_queue_depth\{[^}]*\} (\d+)/gm)];
  return {
    'RSS MiB': daemon.memory().residentMiB,
    descriptors: daemon.handles(),
    'queue MiB': mebibytes('queue'),
    'kept MiB': keptMiB,
    'public MiB': mebibytes('public'),
    'open runs': depths.reduce((sum, [, depth]) => sum + Number(depth), 0),
    staged,
    'KiB each': staged === 0 ? 0 : ((mebibytes('staging') - keptMiB) * 1024) / staged,
  };
}

function printRow(minute: number, sample: Sample, isFirst: boolean): void {
  const cells = Object.entries(sample).map(([name, value]: [string, number]) =>
    value.toFixed(name.endsWith('MiB') ? 1 : 0).padStart(name.length + 2),
  );
  if (isFirst)
    console.log(
      `minute${Object.keys(sample)
        .map((name) => name.padStart(name.length + 2))
        .join('')}`,
    );
  console.log(`${minute.toFixed(0).padStart(6)}${cells.join('')}`);
}

function reachedGoals(samples: readonly Sample[], { refused }: { refused: number }): boolean {
  const third = Math.max(1, Math.floor(samples.length / 3));
  const mean = (part: readonly Sample[], name: keyof Sample): number =>
    part.reduce((sum, sample) => sum + sample[name], 0) / part.length;
  const flat = (Object.keys(samples[0] ?? {}) as (keyof Sample)[]).map((name) => {
    const middle = mean(samples.slice(-2 * third, -third), name);
    const last = mean(samples.slice(-third), name);
    // If a number is small, it can easily vary by more than 10 %.
    const limit = Math.max(middle * maxGrowth, middle + 3);
    return goal(
      `${name}: ${middle.toFixed(1)} → ${last.toFixed(1)} (goal at most ${limit.toFixed(1)})`,
      last <= limit,
    );
  });
  return [...flat, goal(`${refused} uploads refused (goal 0)`, refused === 0)].every(Boolean);
}
