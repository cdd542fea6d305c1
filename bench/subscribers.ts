/**
 * Measures how long it takes until subscribers get an event about a run, with each queue driver. They
 * disconnect and reconnect now and then. With bullmq, uploads and subscribers use different APIs, and
 * publishing is done by a separate process. Environment: BENCH_SUBSCRIBERS (500), BENCH_RUNS (100), and
 * BENCH_EVENTS, how many events a subscriber gets before it reconnects (60).
 */
import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { bundleTar } from '../test/fixtures/tar.ts';
import { startRedis } from '../test/services/redis.ts';
import { type ApiProcess, type Daemon, type DaemonOptions, startDaemon, token } from './daemon.ts';
import { goal } from './measure.ts';

const subscribers = Number(process.env['BENCH_SUBSCRIBERS'] ?? 500);
const runs = Number(process.env['BENCH_RUNS'] ?? 100);
const events = Number(process.env['BENCH_EVENTS'] ?? 60);
const pipelines = 10;
const maxMs = 200;

interface Seen {
  changes: number;
  /** The number of subscribers that did not see every run succeed. */
  incomplete: number;
  /** The number of times each subscriber reconnected, and how often it got a new snapshot. */
  returns: number;
  gaps: number;
  p50: number;
  p95: number;
  most: number;
}

/** Returns true if every subscriber has seen all runs, and got 95 % of the events within 200 ms. */
export async function followed(): Promise<boolean> {
  const redis = await startRedis();
  try {
    const drivers: Record<string, Partial<DaemonOptions>> = {
      'in memory': {},
      embedded: { embedded: true },
      'in Redis, uploaded to another API, published by a worker': {
        shared: { redisUrl: redis.url, workers: 1, apis: 2 },
      },
    };
    let isReached = true;
    for (const [name, options] of Object.entries(drivers))
      isReached = (await followedOn(name, options)) && isReached;
    return isReached;
  } finally {
    await redis.close();
  }
}

async function followedOn(name: string, options: Partial<DaemonOptions>): Promise<boolean> {
  const root = path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-subscribers');
  rmSync(root, { recursive: true, force: true });
  const daemon = await startDaemon({
    root,
    pipelines,
    http: `queue_size: 1000, max_streams: ${subscribers}, max_connections: ${subscribers + 100}`,
    ...options,
  });
  try {
    return await beside(daemon, daemon.others[0] ?? daemon, name);
  } finally {
    await daemon.stop();
    rmSync(root, { recursive: true, force: true });
  }
}

/** Sends uploads to `daemon` and follows their runs at `api`. */
async function beside(daemon: Daemon, api: ApiProcess, name: string): Promise<boolean> {
  const before = api.memory().residentMiB;
  const args = [api.url, subscribers, runs, events].map(String);
  const child = spawn(process.execPath, ['--import=tsx', 'bench/followers.ts', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => String((await lines.next()).value);
  await next();
  const open = api.memory().residentMiB;
  api.resetPeak();
  const begun = performance.now();
  for (let run = 0; run < runs; run += 1) await upload(daemon, run);
  const seen = JSON.parse(await next()) as Seen;
  const seconds = (performance.now() - begun) / 1000;
  const { peakMiB } = api.memory();
  console.log(`\n${subscribers} subscribers, ${runs} runs; the queue ${name}`);
  console.log(
    `  change of status → client  p50 ${seen.p50} ms, p95 ${seen.p95} ms, at most ${seen.most} ms (${seen.changes} in ${seconds.toFixed(1)} s)`,
  );
  console.log(`  came back                  ${seen.returns} times, ${seen.gaps} of them to a snapshot`);
  console.log(
    `  resident                   ${before.toFixed(0)} MiB before, ${open.toFixed(0)} MiB with all streams open, ${peakMiB.toFixed(0)} MiB at most`,
  );
  return [
    goal(`${seen.incomplete} subscribers missed a run (goal none)`, seen.incomplete === 0),
    goal(`p95 ${seen.p95} ms (goal under ${maxMs})`, seen.p95 < maxMs),
  ].every(Boolean);
}

async function upload({ url }: Daemon, run: number): Promise<void> {
  const body = bundleTar({ 'a.txt': String(run) }, { name: `r${run}` });
  const response = await fetch(`${url}v1/pipelines/p${run % pipelines}/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar' },
    body,
  });
  if (response.status !== 202) throw new Error(`${response.status} ${await response.text()}`);
}
