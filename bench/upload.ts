/**
 * Uploads, beside what a shell would do with the same archive: `gzip -dc | tar -x`, and one `sha256sum` over
 * what came out; then how soon each driver of the queue accepts. Environment: BENCH_MIB of the large bundle
 * (1024), BENCH_UPLOADS of the small ones (6000), BENCH_ACCEPTED of those for each driver (4000),
 * BENCH_PROFILE a directory for a CPU profile of the daemon.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { processJob } from '../src/workers/threads/process-job.ts';
import { systemClock } from '../src/core/clock.ts';
import { loadConfig } from '../src/core/config/load.ts';
import { loadSecrets } from '../src/core/secrets.ts';
import { silentLog } from '../src/core/log.ts';
import { stageUpload } from '../src/core/bundle/staging.ts';
import { storageOpener } from '../src/core/storage/open-storage.ts';
import { bundleTar, inChunks } from '../test/fixtures/tar.ts';
import { acceptance } from './acceptance.ts';
import { writeBundle } from './bundle-files.ts';
import { finished, inParallel, send, type Run } from './client.ts';
import { startRedis } from '../test/services/redis.ts';
import { startDaemon, token, type Daemon, type SharedQueue } from './daemon.ts';
import { compare, goal, print } from './measure.ts';

const mib = Number(process.env['BENCH_MIB'] ?? 1024);
const uploads = Number(process.env['BENCH_UPLOADS'] ?? 6000);
const profile = process.env['BENCH_PROFILE'];
const nodeArguments = profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${path.resolve(profile)}`];

/** True where every aim was reached. */
export async function upload(): Promise<boolean> {
  const root = path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-upload');
  rmSync(root, { recursive: true, force: true });
  try {
    const reached = [
      await large(path.join(root, 'large')),
      await tiny(path.join(root, 'tiny'), 600),
      await shared(path.join(root, 'shared')),
      await acceptance(path.join(root, 'acceptance')),
    ];
    return reached.every(Boolean);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

async function large(root: string): Promise<boolean> {
  const archive = path.join(root, 'bundle.tar.gz');
  makeArchive(root, archive);
  const daemon = await startDaemon({ root: path.join(root, 'daemon'), pipelines: 8, nodeArguments });
  try {
    const out = path.join(root, 'out');
    const shell = `gzip -dc ${archive} | tar -x -C ${out} && find ${out} -type f -print0 | xargs -0 sha256sum`;
    const idle = daemon.memory().residentMiB;
    const [ours, theirs] = compare(
      [
        {
          name: 'waybill: accepted',
          command: ['curl', ...curlOf(daemon, 'p0', archive)],
          before: () => {
            settle(daemon);
            daemon.resetPeak();
          },
        },
        {
          name: 'gzip | tar, sha256sum',
          command: ['sh', '-c', shell],
          before: () => {
            settle(daemon);
            rmSync(out, { recursive: true, force: true });
            mkdirSync(out);
          },
        },
      ],
      3,
    );
    const peak = daemon.memory().peakMiB;
    print(`one tar.gz that holds ${mib} MiB (memory is that of the clients)`, [ours!, theirs!]);
    const ratio = ours!.seconds / theirs!.seconds;
    const isQuick = goal(`${ratio.toFixed(2)} × the shell (goal 1.05 × or less)`, ratio <= 1.05);
    const isSmall = goal(
      `the daemon's memory ${peak.toFixed(0)} MiB at its peak, ${idle.toFixed(0)} idle (goal under 200)`,
      peak < 200,
    );

    settle(daemon);
    daemon.resetPeak();
    const begun = performance.now();
    await Promise.all(
      Array.from({ length: 8 }, async (_, index) => {
        const child = spawn('curl', curlOf(daemon, `p${index}`, archive), { stdio: 'ignore' });
        const [code] = (await once(child, 'close')) as [number];
        if (code !== 0) throw new Error(`curl ended with ${code}`);
      }),
    );
    const seconds = (performance.now() - begun) / 1000;
    const eight = daemon.memory().peakMiB;
    console.log(`\neight of them at once: ${seconds.toFixed(1)} s`);
    return (
      goal(`the daemon's memory ${eight.toFixed(0)} MiB at its peak (goal under 350)`, eight < 350) &&
      isQuick &&
      isSmall
    );
  } finally {
    await daemon.stop();
  }
}

/** Half random and half text, as bundles of images and documents are. */
function makeArchive(root: string, archive: string): void {
  const bundle = path.join(root, 'bundle');
  writeBundle(bundle, 64, (mib / 64) * 2 ** 20);
  run('sh', ['-c', `tar -C ${bundle} -cf - . | gzip -c > ${archive}`]);
  rmSync(bundle, { recursive: true });
}

function curlOf(daemon: Daemon, pipeline: string, archive: string): string[] {
  return [
    ...['--silent', '--show-error', '--fail-with-body', '--output', '/dev/null', '--request', 'POST'],
    ...['--header', `Authorization: Bearer ${token}`, '--header', 'Content-Type: application/gzip'],
    ...['--upload-file', archive, `${daemon.url}v1/pipelines/${pipeline}/upload`],
  ];
}

/** Waits until nothing is published any more and all is on the disk, so that every turn begins alike. */
function settle(daemon: Daemon): void {
  const metrics = `until curl -s ${daemon.url}metrics | grep -q '^waybill_queue_depth{state="running"} 0'; do sleep 0.2; done`;
  run('sh', ['-c', metrics]);
  spawnSync('sync');
}

/** The same with the queue in Redis and two processes that publish. */
async function shared(root: string): Promise<boolean> {
  const redis = await startRedis();
  try {
    console.log('\nthe queue in Redis, two workers');
    return await tiny(root, 400, { redisUrls: [redis.url], workers: 2 });
  } finally {
    await redis.close();
  }
}

async function tiny(root: string, aim: number, queue?: SharedQueue & { workers: number }): Promise<boolean> {
  const pipelines = 20;
  // ext4 without a journal passes over inodes that were freed in the last minute, one by one, whenever it
  // makes a new one: what the bench itself removed before would be measured.
  spawnSync('sync');
  await new Promise((resolve) => setTimeout(resolve, 65_000));
  const daemon = await startDaemon({
    root,
    pipelines,
    // Four publications at once, in all.
    http: `queue_size: 100000, max_concurrency: ${4 / (queue?.workers ?? 1)}`,
    nodeArguments,
    ...(queue === undefined ? {} : { shared: queue }),
  });
  try {
    const archives = Array.from({ length: uploads }, (_, index) =>
      bundleTar(
        { 'index.html': `<p>${index}</p>`, 'data.json': `{"n": ${index}}` },
        { name: `session-${index}` },
      ),
    );
    // Threads and code are warm before it counts.
    await inParallel(uploads / 4, 16, async (index) => {
      await finished(
        daemon.url,
        await send(daemon.url, `p${index % pipelines}`, bundleTar({ a: 'x' }, { name: `w-${index}` })),
      );
    });
    const locations: string[] = [];
    const begun = Date.now();
    await inParallel(uploads, 32, async (index) => {
      locations[index] = await send(daemon.url, `p${index % pipelines}`, archives[index]!);
    });
    const accepted = (Date.now() - begun) / 1000;
    const runs: Run[] = [];
    for (const location of locations.toReversed()) runs.push(await finished(daemon.url, location));
    // The records tell when each was published; asking for them all is no part of it.
    const published = (Math.max(...runs.map((run) => Date.parse(run.finished_at))) - begun) / 1000;
    for (let index = 0; index < uploads; index += 97) {
      const file = path.join(root, `public/p${index % pipelines}/session-${index}/data.json`);
      if (readFileSync(file, 'utf8') !== `{"n": ${index}}`)
        throw new Error(`${file} is not what was uploaded`);
    }
    const perSecond = uploads / published;
    console.log(`\n${uploads} uploads of two small files over ${pipelines} pipelines`);
    console.log(`  accepted in ${accepted.toFixed(2)} s, all published in ${published.toFixed(2)} s`);
    console.log(`  the daemon's memory ${daemon.memory().peakMiB.toFixed(0)} MiB at its peak`);
    const core = await coreMs(path.join(root, 'core'));
    const inRun = median(runs.map((run) => Date.parse(run.finished_at) - Date.parse(run.started_at)));
    console.log(
      `  a run ${inRun.toFixed(1)} ms with its thread (up to four side by side), the core alone ${core.toFixed(1)} ms: overhead ${(inRun - core).toFixed(1)} ms`,
    );
    return goal(
      `${perSecond.toFixed(0)} uploads a second, accepted and published (goal ${aim})`,
      perSecond >= aim,
    );
  } finally {
    await daemon.stop();
  }
}

/**
 * Milliseconds of one such publication without a queue, a thread or HTTP: the median of 200, after as many to
 * warm up.
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
      pipelineId: 'core',
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

function run(command: string, args: readonly string[]): void {
  const { status, error, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${command} ended with ${status}: ${stderr}`);
}
