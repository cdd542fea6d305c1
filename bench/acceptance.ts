/**
 * Measures how long 200 concurrent clients wait for their 202, with each queue driver. A durable queue writes
 * every upload to disk first, but compared with receiving the upload, that should not take long.
 */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { bundleTar } from '../test/fixtures/tar.ts';
import { startRedis } from '../test/services/redis.ts';
import { inParallel, send } from './client.ts';
import { type DaemonOptions, startDaemon } from './daemon.ts';
import { goal } from './measure.ts';

const uploads = Number(process.env['BENCH_ACCEPTED'] ?? 4000);
const connections = 200;
const pipelines = 20;

interface Times {
  p50: number;
  p95: number;
  p99: number;
  perSecond: number;
}

/** Returns true if the embedded queue is about as fast as the one in memory. */
export async function acceptance(root: string): Promise<boolean> {
  const redis = await startRedis();
  try {
    const drivers: Record<string, Partial<DaemonOptions>> = {
      memory: {},
      embedded: { embedded: true },
      bullmq: { shared: { redisUrl: redis.url, workers: 1 } },
    };
    const rounds: Record<string, Times[]> = { memory: [], embedded: [], bullmq: [] };
    // Alternate between the drivers, because other load on the machine should affect all of them equally.
    for (let round = 0; round < 3; round += 1)
      for (const [driver, options] of Object.entries(drivers))
        rounds[driver]!.push(await measured(path.join(root, `${driver}-${round}`), options));
    console.log(`\n${uploads} uploads of two small files over ${connections} connections, until the 202`);
    const best: Record<string, number> = {};
    for (const [driver, times] of Object.entries(rounds)) {
      const { p50, p95, p99, perSecond } = times.toSorted((a, b) => a.p50 - b.p50)[1]!;
      best[driver] = p50;
      const at = (name: string, ms: number): string => `${name} ${ms.toFixed(0).padStart(5)} ms   `;
      console.log(
        `  ${driver.padEnd(9)} ${at('p50', p50)}${at('p95', p95)}${at('p99', p99)}${perSecond.toFixed(0).padStart(5)} a second`,
      );
    }
    const ratio = best['embedded']! / best['memory']!;
    return goal(`embedded ${ratio.toFixed(2)} × memory at the median (goal 1.1 or less)`, ratio <= 1.1);
  } finally {
    await redis.close();
  }
}

async function measured(root: string, options: Partial<DaemonOptions>): Promise<Times> {
  spawnSync('sync');
  const daemon = await startDaemon({
    root,
    pipelines,
    http: 'queue_size: 100000, max_concurrency: 2',
    ...options,
  });
  try {
    const archives = Array.from({ length: uploads }, (_, index) =>
      bundleTar({ 'index.html': `<p>${index}</p>`, 'data.json': `{"n": ${index}}` }, { name: `s-${index}` }),
    );
    const upload = (index: number): Promise<string> =>
      send(daemon.url, `p${index % pipelines}`, archives[index % uploads]!);
    await inParallel(uploads / 8, connections, async (index) => {
      await upload(index);
    });
    const times: number[] = [];
    const begun = performance.now();
    await inParallel(uploads, connections, async (index) => {
      const since = performance.now();
      await upload(index);
      times.push(performance.now() - since);
    });
    const seconds = (performance.now() - begun) / 1000;
    times.sort((a, b) => a - b);
    const at = (share: number): number => times[Math.floor((times.length - 1) * share)]!;
    return { p50: at(0.5), p95: at(0.95), p99: at(0.99), perSecond: uploads / seconds };
  } finally {
    await daemon.kill();
  }
}
