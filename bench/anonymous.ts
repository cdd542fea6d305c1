/**
 * `/livez` and uploads while clients without a token attack: 2, 6 and 60 connections of each attack, each
 * from an address of its own. Compared with a quiet period before. Environment: BENCH_SECONDS of each
 * load (5).
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { bundleTar } from '../test/fixtures/tar.ts';
import { type AttackName, attackNames } from './attackers.ts';
import { finished, send } from './client.ts';
import { type Daemon, startDaemon } from './daemon.ts';
import { goal } from './measure.ts';

const seconds = Number(process.env['BENCH_SECONDS'] ?? 5);
const counts = [2, 6, 60];

/** Times in milliseconds, sorted. */
interface Times {
  livez: number[];
  /** From the request to the answer 202. */
  upload: number[];
  /** From the request to the end of the run. */
  published: number[];
}

export async function anonymous(): Promise<boolean> {
  const root = path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-anonymous');
  rmSync(root, { recursive: true, force: true });
  const daemon = await startDaemon({ root, pipelines: 1 });
  try {
    await measured(daemon, sleep(1_000));
    const slowest = { livez: 0, upload: 0 };
    for (const attack of attackNames)
      for (const { livez, upload } of await compareWithQuiet(daemon, attack)) {
        slowest.livez = Math.max(slowest.livez, at(livez, 0.5));
        slowest.upload = Math.max(slowest.upload, at(upload, 0.5));
      }
    return [
      goal(`/livez: slowest median ${slowest.livez.toFixed(0)} ms (goal under 100)`, slowest.livez < 100),
      goal(`upload: slowest median ${slowest.upload.toFixed(0)} ms (goal under 1000)`, slowest.upload < 1000),
    ].every(Boolean);
  } finally {
    await daemon.stop();
    rmSync(root, { recursive: true, force: true });
  }
}

async function compareWithQuiet(daemon: Daemon, attack: AttackName): Promise<Times[]> {
  const attacked: Times[] = [];
  console.log(`\n${attack}`);
  const quiet = await measured(daemon, sleep(seconds * 1000));
  row('quiet', quiet, quiet);
  for (const count of counts) {
    const args = ['--import=tsx', 'bench/attackers.ts', daemon.url, attack, String(count), String(seconds)];
    const attackers = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    let answers = '';
    attackers.stdout.on('data', (chunk: Buffer) => (answers += chunk.toString()));
    const times = await measured(daemon, once(attackers, 'close'));
    row(`${count} connections`, times, quiet, answers.trim());
    attacked.push(times);
    // The body memory and the login limit recover.
    await sleep(1_000);
  }
  return attacked;
}

async function measured(daemon: Daemon, work: Promise<unknown>): Promise<Times> {
  let isOver = false;
  const end = work.finally(() => (isOver = true));
  const times: Times = { livez: [], upload: [], published: [] };
  const since = (begun: number): number => performance.now() - begun;
  const probes = async (): Promise<void> => {
    while (!isOver) {
      const begun = performance.now();
      await probe(`${daemon.url}livez`);
      times.livez.push(since(begun));
      await sleep(20);
    }
  };
  const uploads = async (): Promise<void> => {
    for (let turn = 0; !isOver; turn += 1) {
      const archive = bundleTar({ 'a.txt': `${turn}` }, { name: 'bundle' });
      const begun = performance.now();
      const run = await send(daemon.url, 'p0', archive);
      times.upload.push(since(begun));
      await finished(daemon.url, run);
      times.published.push(since(begun));
      await sleep(50);
    }
  };
  await Promise.all([end, probes(), uploads()]);
  for (const each of Object.values(times) as number[][]) each.sort((a, b) => a - b);
  return times;
}

function probe(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    request(url, { agent: false }, (response) => response.resume().on('end', resolve))
      .on('error', reject)
      .end();
  });
}

/** Median, with its ratio to quiet, and maximum. */
function row(name: string, times: Times, quiet: Times, answers = ''): void {
  const cells = (['livez', 'upload', 'published'] as const).map((kind) => {
    const [median, most] = [at(times[kind], 0.5), at(times[kind], 1)];
    const ratio = median / at(quiet[kind], 0.5);
    return `${kind} ${median.toFixed(1)} ms (${ratio.toFixed(1)} ×, at most ${most.toFixed(0)} ms)`;
  });
  console.log(`  ${name.padEnd(15)} ${cells.join('   ')}   ${answers}`);
}

function at(sorted: readonly number[], share: number): number {
  return sorted[Math.floor((sorted.length - 1) * share)] ?? 0;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
