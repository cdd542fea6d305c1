/**
 * Measures how long a new connection waits for /healthz while there are lots of uploads. Environment:
 * BENCH_SECONDS for each kind of load (15), BENCH_UPLOADERS (200), and BENCH_PROFILE, a directory for a CPU
 * profile of the daemon.
 */
import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Daemon, startDaemon } from './daemon.ts';
import { goal } from './measure.ts';

const seconds = Number(process.env['BENCH_SECONDS'] ?? 15);
const uploaders = Number(process.env['BENCH_UPLOADERS'] ?? 200);
const profile = process.env['BENCH_PROFILE'];
const nodeArguments = profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${path.resolve(profile)}`];

interface Load {
  name: string;
  /** The number of files in each bundle. */
  files: number;
  connections: 'fresh' | 'kept';
}

const loads: readonly Load[] = [
  { name: 'two small files, a new connection for each upload', files: 2, connections: 'fresh' },
  { name: 'two small files, connections kept', files: 2, connections: 'kept' },
  { name: '300 small files, a new connection for each upload', files: 300, connections: 'fresh' },
];

/**
 * Always returns true. There is no goal, because the result depends on the machine and on what else it is
 * doing.
 */
export async function health(): Promise<boolean> {
  const root = path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-health');
  for (const [index, load] of loads.entries()) {
    rmSync(root, { recursive: true, force: true });
    const daemon = await startDaemon({
      root: path.join(root, String(index)),
      pipelines: 20,
      http: 'queue_size: 100000, max_concurrency: 2, retention: 10s',
      nodeArguments,
    });
    try {
      await beside(daemon, load);
    } finally {
      await daemon.stop();
      rmSync(root, { recursive: true, force: true });
    }
  }
  return true;
}

async function beside(daemon: Daemon, { name, files, connections }: Load): Promise<void> {
  const alone = await probes(daemon, async () => new Promise((resolve) => setTimeout(resolve, 2_000)));
  let printed = '';
  const busy = await probes(daemon, async () => {
    const args = [daemon.url, uploaders, files, seconds, connections].map(String);
    const child = spawn(process.execPath, ['--import=tsx', 'bench/uploaders.ts', ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()));
    await new Promise((resolve) => child.once('close', resolve));
  });
  const result = JSON.parse(printed) as { statuses: Record<string, number>; p50: number; p99: number };
  const perSecond = (result.statuses['202'] ?? 0) / seconds;
  console.log(`\n${uploaders} uploaders: ${name}`);
  console.log(`  /healthz alone             ${describe(alone)}`);
  console.log(`  /healthz during uploads    ${describe(busy)}`);
  console.log(
    `  ${perSecond.toFixed(0)} uploads accepted a second (p50 ${result.p50.toFixed(0)} ms, p99 ${result.p99.toFixed(0)} ms); answers ${JSON.stringify(result.statuses)}`,
  );
  goal(`p99 ${at(busy, 0.99).toFixed(0)} ms (goal under 100)`, at(busy, 0.99) < 100);
}

/**
 * Returns how many milliseconds it takes to connect and receive the response. Repeats this until `work` is
 * done.
 */
async function probes({ url }: Daemon, work: () => Promise<unknown>): Promise<number[]> {
  let isDone = false;
  const done = work().finally(() => (isDone = true));
  const times: number[] = [];
  const isOver = (): boolean => isDone;
  while (!isOver()) {
    const begun = performance.now();
    await probe(`${url}healthz`);
    times.push(performance.now() - begun);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await done;
  return times.toSorted((a, b) => a - b);
}

function probe(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    request(url, { agent: false }, (response) => response.resume().on('end', resolve))
      .on('error', reject)
      .end();
  });
}

function at(sorted: readonly number[], share: number): number {
  return sorted[Math.floor((sorted.length - 1) * share)] ?? 0;
}

function describe(times: readonly number[]): string {
  const [p50, p99, most] = [at(times, 0.5), at(times, 0.99), at(times, 1)].map((ms) => ms.toFixed(1));
  return `p50 ${p50} ms, p99 ${p99} ms, at most ${most} ms (${times.length} probes)`;
}
