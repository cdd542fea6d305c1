/**
 * Measures small uploads with each queue driver: how many are accepted and published per second, and how long
 * it takes to accept one. Environment: BENCH_UPLOADS (6000), BENCH_ACCEPTED, how many of them are sent for
 * each driver (4000), and BENCH_PROFILE, a directory for a CPU profile of the daemon.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { stageUpload } from '../src/core/bundle/stage-upload.ts';
import { loadConfig } from '../src/core/config/load-config.ts';
import { systemClock } from '../src/core/lib/clock.ts';
import { silentLog } from '../src/core/lib/log.ts';
import { loadSecrets } from '../src/core/lib/secrets.ts';
import { storageOpener } from '../src/core/storage/open-storage.ts';
import { processJob } from '../src/workers/threads/publish-task.ts';
import { bundleTar, inChunks } from '../test/fixtures/tar.ts';
import { startRedis } from '../test/services/redis.ts';
import { acceptance } from './acceptance.ts';
import { finished, inParallel, type Run, send } from './client.ts';
import { profiling, type SharedQueue, startDaemon } from './daemon.ts';
import { goal } from './measure.ts';
import { type ThreadTimes, threadTimes } from './scaling/usage.ts';

const uploads = Number(process.env['BENCH_UPLOADS'] ?? 6000);

/** Returns true if all goals were reached. */
export async function upload(): Promise<boolean> {
  const root = path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-upload');
  rmSync(root, { recursive: true, force: true });
  try {
    const reached = [
      await tiny(path.join(root, 'memory'), 'the queue in memory', 600),
      await tiny(path.join(root, 'embedded'), 'the embedded queue', 500, { embedded: true }),
      await shared(path.join(root, 'shared')),
      await acceptance(path.join(root, 'acceptance')),
    ];
    return reached.every(Boolean);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** Does the same with the queue in Redis and two worker processes. */
async function shared(root: string): Promise<boolean> {
  const redis = await startRedis();
  try {
    const queue = { redisUrl: redis.url, workers: 2 };
    // There are four publications at the same time, two in each worker.
    return await tiny(root, 'the queue in Redis, two workers', 400, { shared: queue, concurrency: 2 });
  } finally {
    await redis.close();
  }
}

interface Queue {
  embedded?: boolean;
  shared?: SharedQueue;
  /** The number of concurrent publications in each worker process. The default is 4. */
  concurrency?: number;
}

async function tiny(root: string, name: string, aim: number, queue: Queue = {}): Promise<boolean> {
  const pipelines = 20;
  // If files have been deleted in the last minute, ext4 without a journal skips their inodes one by one when
  // it creates a file. Wait until this is over.
  spawnSync('sync');
  await new Promise((resolve) => setTimeout(resolve, 65_000));
  const { concurrency = 4, ...driver } = queue;
  const http = `queue_size: 100000, max_concurrency: ${concurrency}`;
  const daemon = await startDaemon({ root, pipelines, http, nodeArguments: profiling, ...driver });
  try {
    const archives = Array.from({ length: uploads }, (_, index) =>
      bundleTar(
        { 'index.html': `<p>${index}</p>`, 'data.json': `{"n": ${index}}` },
        { name: `session-${index}` },
      ),
    );
    // Warm up first, to start threads and get the code compiled.
    await inParallel(uploads / 4, 16, async (index) => {
      await finished(
        daemon.url,
        await send(daemon.url, `p${index % pipelines}`, bundleTar({ a: 'x' }, { name: `w-${index}` })),
      );
    });
    const locations: string[] = [];
    const before = threadTimes(daemon.pid);
    const begun = Date.now();
    await inParallel(uploads, 32, async (index) => {
      locations[index] = await send(daemon.url, `p${index % pipelines}`, archives[index]!);
    });
    const accepted = (Date.now() - begun) / 1000;
    // A pipeline has only one run at a time, so this waits for all of them.
    await Promise.all(locations.slice(-pipelines).map((location) => finished(daemon.url, location)));
    const after = threadTimes(daemon.pid);
    const runs: Run[] = [];
    for (const location of locations.toReversed()) runs.push(await finished(daemon.url, location));
    // The run records contain the time of publication. Requesting them is not part of the measurement.
    const published = (Math.max(...runs.map((run) => Date.parse(run.finished_at))) - begun) / 1000;
    for (let index = 0; index < uploads; index += 97) {
      const file = path.join(root, `public/p${index % pipelines}/session-${index}/data.json`);
      if (readFileSync(file, 'utf8') !== `{"n": ${index}}`)
        throw new Error(`${file} is not what was uploaded`);
    }
    const perSecond = uploads / published;
    console.log(`\n${uploads} uploads of two small files over ${pipelines} pipelines: ${name}`);
    console.log(`  accepted in ${accepted.toFixed(2)} s, all published in ${published.toFixed(2)} s`);
    const each = (of: keyof ThreadTimes): string => ((after[of] - before[of]) / uploads).toFixed(1);
    console.log(
      `  the daemon took ${each('mainMs')} ms of its main thread and ${each('otherMs')} ms of others each`,
    );
    console.log(`  the daemon's memory ${daemon.memory().peakMiB.toFixed(0)} MiB at its peak`);
    const core = await coreMs(path.join(root, 'core'));
    const inRun = median(runs.map((run) => Date.parse(run.finished_at) - Date.parse(run.started_at)));
    console.log(
      `  a run ${inRun.toFixed(1)} ms with its thread (up to four side by side), the core alone ${core.toFixed(1)} ms: overhead ${(inRun - core).toFixed(1)} ms`,
    );
    return goal(
      `${name}: ${perSecond.toFixed(0)} uploads a second, accepted and published (goal ${aim})`,
      perSecond >= aim,
    );
  } finally {
    await daemon.stop();
  }
}

/**
 * Measures such a publication without the queue, threads and HTTP, in milliseconds. Returns the median of
 * 200, after a warm-up of another 200.
 */
async function coreMs(root: string): Promise<number> {
  mkdirSync(root, { recursive: true });
  const file = path.join(root, 'waybill.yaml');
  writeFileSync(
    file,
    `upload_tokens: [{id: bench, value_env: T, pipelines: [core]}]
pipelines:
  - {id: core, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./public}]}
`,
  );
  const { config } = await loadConfig(file, { home: root });
  const secrets = await loadSecrets({ directory: null, env: {} });
  const openStorage = storageOpener({ clock: systemClock, log: silentLog, secrets });
  const context = { clock: systemClock, log: silentLog, secrets, openStorage, notify: () => undefined };
  const times: number[] = [];
  for (let index = 0; index < 400; index += 1) {
    const bundlePath = `session-${index}`;
    const directory = path.join(root, 'staging', bundlePath);
    await stageUpload({
      input: inChunks(bundleTar({ 'index.html': 'x', 'data.json': 'y' }, { name: bundlePath })),
      directory,
      limits: { maxUploadSize: 2 ** 20, maxFiles: 10 },
      signal: new AbortController().signal,
    });
    const begun = performance.now();
    const { run: published } = await processJob(
      { runId: `core.${index}`, pipelineId: 'core', staged: directory, bundlePath },
      config,
      context,
      { dryRun: false, onProgress: () => undefined },
    );
    if (published.counters.publish_new !== 1) throw new Error(JSON.stringify(published));
    if (index >= 200) times.push(performance.now() - begun);
  }
  return median(times);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}
