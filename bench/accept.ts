/**
 * Measures how long it takes from the start of a large upload to the 202, compared with doing the same in a
 * shell: `gzip -dc | tar -x`, followed by `sha256sum` on all files. Environment: BENCH_MIB (1024), and
 * BENCH_PROFILE, a directory for a CPU profile of the daemon.
 */
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes, randomFillSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { writeBundle } from './bundle-files.ts';
import { type Daemon, profiling, startDaemon, token } from './daemon.ts';
import { compare, goal, print } from './measure.ts';

const mib = Number(process.env['BENCH_MIB'] ?? 1024);

/** Returns true if all goals were reached. */
export async function accept(): Promise<boolean> {
  const root = path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-accept');
  rmSync(root, { recursive: true, force: true });
  try {
    return await large(root);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

async function large(root: string): Promise<boolean> {
  const archive = path.join(root, 'bundle.tar.gz');
  makeArchive(root, archive);
  const daemon = await startDaemon({
    root: path.join(root, 'daemon'),
    pipelines: 8,
    nodeArguments: profiling,
  });
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
    print(`one tar.gz of ${mib} MiB (the memory column shows the clients)`, [ours!, theirs!]);
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

/** Half of the data is random and half is text, like a bundle of images and documents. */
function makeArchive(root: string, archive: string): void {
  const bundle = path.join(root, 'bundle');
  writeBundle(bundle, 64, (mib / 64) * 2 ** 20, (chunk, index) =>
    index % 2 === 0
      ? randomFillSync(chunk)
      : chunk.write(randomBytes(chunk.length).toString('base64').slice(0, chunk.length)),
  );
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

/**
 * Waits until all runs have finished and all data has been written to disk, so every round starts in the same
 * state.
 */
function settle(daemon: Daemon): void {
  const metrics = `until curl -s ${daemon.url}metrics | grep -q '^waybill_queue_depth{state="running"} 0'; do sleep 0.2; done`;
  run('sh', ['-c', metrics]);
  spawnSync('sync');
}

function run(command: string, args: readonly string[]): void {
  const { status, error, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${command} ended with ${status}: ${stderr}`);
}
