/**
 * How long a change of a run takes to those who follow it live. Environment: BENCH_SUBSCRIBERS (500),
 * BENCH_RUNS (100), REDIS_URL to measure with the queue in Redis, too: published by another process then.
 */
import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { bundleTar } from '../test/fixtures/tar.ts';
import { startDaemon, token, type Daemon } from './daemon.ts';
import { goal } from './measure.ts';

const subscribers = Number(process.env['BENCH_SUBSCRIBERS'] ?? 500);
const runs = Number(process.env['BENCH_RUNS'] ?? 100);
const pipelines = 10;
const mostMs = 200;

/** Whether every subscriber saw every run, and 95 of 100 changes within 200 ms. */
export async function events(): Promise<boolean> {
  const redisUrl = process.env['REDIS_URL'];
  const drivers = redisUrl === undefined ? [] : [{ redisUrl, workers: 1 }];
  let isReached = true;
  for (const shared of [undefined, ...drivers]) {
    const root = path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-events');
    rmSync(root, { recursive: true, force: true });
    const daemon = await startDaemon({
      root,
      pipelines,
      http: `queue_size: 1000, max_streams: ${subscribers}, max_connections: ${subscribers + 100}`,
      ...(shared === undefined ? {} : { shared }),
    });
    try {
      const name = shared === undefined ? 'in memory' : 'in Redis, published by a worker';
      isReached = (await followed(daemon, name)) && isReached;
    } finally {
      await daemon.stop();
      rmSync(root, { recursive: true, force: true });
    }
  }
  return isReached;
}

async function followed(daemon: Daemon, name: string): Promise<boolean> {
  const before = daemon.memory().residentMiB;
  const args = ['--import=tsx', 'bench/subscribers.ts', daemon.url, String(subscribers), String(runs)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => String((await lines.next()).value);
  await next();
  const open = daemon.memory().residentMiB;
  daemon.resetPeak();
  const begun = performance.now();
  for (let run = 0; run < runs; run += 1) await upload(daemon, run);
  const result = JSON.parse(await next()) as Record<
    'changes' | 'incomplete' | 'p50' | 'p95' | 'most',
    number
  >;
  const seconds = (performance.now() - begun) / 1000;
  const { peakMiB } = daemon.memory();
  console.log(`\n${subscribers} subscribers, ${runs} runs; the queue ${name}`);
  console.log(
    `  change of status → client  p50 ${result.p50} ms, p95 ${result.p95} ms, at most ${result.most} ms (${result.changes} in ${seconds.toFixed(1)} s)`,
  );
  console.log(
    `  resident                   ${before.toFixed(0)} MiB before, ${open.toFixed(0)} MiB with all streams open, ${peakMiB.toFixed(0)} MiB at most`,
  );
  const isWhole = goal(`${result.incomplete} subscribers missed a run (goal none)`, result.incomplete === 0);
  return goal(`p95 ${result.p95} ms (goal under ${mostMs})`, result.p95 < mostMs) && isWhole;
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
