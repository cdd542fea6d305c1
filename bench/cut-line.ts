import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CuttingProxy, startCuttingProxy } from '../test/services/cutting-proxy.ts';
import { freePort } from '../test/services/free-port.ts';
import { startNginx } from '../test/services/nginx.ts';
import { generator } from '../test/support/sampling.ts';
import { writeBundle } from './bundle-files.ts';
import { type Daemon, startDaemon, token } from './daemon.ts';
import { waybill } from './local.ts';
import { goal, measureBeside, type Sample } from './measure.ts';

const mib = Number(process.env['BENCH_CUT_MIB'] ?? 500);
const cuts = Number(process.env['BENCH_CUTS'] ?? 50);
/** The size of the chunks that `push` sends. */
const chunkBytes = 8 << 20;
const aimMiB = 200;

/** A configuration as in docs/operations.md. */
const proxied = (port: number): string => `
  location / {
    proxy_pass http://127.0.0.1:${port};
    proxy_http_version 1.1;
    proxy_request_buffering off;
    client_max_body_size 4g;
    client_body_timeout 60s;
    proxy_read_timeout 300s;
    proxy_set_header Host $host;
  }`;

interface World {
  bundle: string;
  archive: string;
  line: CuttingProxy;
  /** Returns the daemon that is running now. */
  daemon: () => Daemon;
  /** Kills the daemon and starts another one. */
  restart: () => Promise<void>;
}

/**
 * Uploads an archive through nginx, over a connection that breaks at random points. Halfway through, the
 * daemon is killed and restarted. Then does the same with curl, but without killing the daemon.
 */
export async function cutLine(root: string): Promise<boolean> {
  const releases: (() => unknown)[] = [];
  const t = { teardown: (release: () => unknown) => void releases.push(release) };
  const bundle = path.join(root, 'bundle');
  const archive = path.join(root, 'bundle.tar');
  writeBundle(bundle, 10, (mib / 10) << 20);
  run('tar', ['-C', bundle, '-cf', archive, '.']);
  try {
    const port = await freePort();
    const options = { root: path.join(root, 'daemon'), pipelines: 2, port };
    let daemon = await startDaemon(options);
    releases.push(() => daemon.stop());
    const line = await startCuttingProxy(t, await startNginx(t, { server: proxied(port) }));
    const restart = async (): Promise<void> => {
      await daemon.kill();
      daemon = await startDaemon(options);
    };
    const world = { bundle, archive, line, daemon: () => daemon, restart };
    const isReached = await ours(world, path.join(root, 'daemon/public/p0'));
    await theirs(world);
    return isReached;
  } finally {
    for (const release of releases.reverse()) await release();
    rmSync(root, { recursive: true, force: true });
  }
}

async function ours(world: World, published: string): Promise<boolean> {
  const { bundle, archive, line, daemon, restart } = world;
  let peak = 0;
  const halfway = async (): Promise<void> => {
    peak = daemon().memory().peakMiB;
    await restart();
  };
  const url = `http://127.0.0.1:${line.port}`;
  const command = [...waybill, 'push', archive, '--to', url, '--pipeline', 'p0'];
  const sample = await overCuts(line, command, halfway);
  const peakMiB = Math.max(peak, daemon().memory().peakMiB);
  const [name] = run('ls', [published]).split('\n');
  run('diff', [
    '-r',
    '--exclude=.publisher.json',
    '--exclude=manifest.json',
    bundle,
    path.join(published, name!),
  ]);
  const runs = await fetch(`${daemon().url}v1/runs?pipeline=p0`, {
    headers: { authorization: `Bearer ${token}` },
  }).then(async (response) => (await response.json()) as { runs: unknown[] });

  const again = sample.sent - (mib << 20);
  console.log(`\n${mib} MiB through nginx over a line that was cut ${sample.cuts} times`);
  printCut('waybill push, daemon killed', sample);
  const reached = [
    goal(`${sample.cuts} cuts (goal ${cuts})`, sample.cuts === cuts),
    goal(
      `${(again / 2 ** 20 / (cuts + 1)).toFixed(2)} MiB sent twice for each cut and the kill (goal at most a chunk, ${chunkBytes >> 20})`,
      again <= (cuts + 1) * chunkBytes + (1 << 20),
    ),
    goal(`${runs.runs.length} run (goal 1)`, runs.runs.length === 1),
    goal(`the daemon's memory ${peakMiB.toFixed(0)} MiB (goal under ${aimMiB})`, peakMiB < aimMiB),
    goal(
      `the client's memory ${sample.peakMiB.toFixed(0)} MiB (goal under ${aimMiB})`,
      sample.peakMiB < aimMiB,
    ),
  ];
  return reached.every(Boolean);
}

/** curl has to start over each time. The connection breaks just as often per byte. */
async function theirs({ archive, line }: World): Promise<void> {
  const curl = [
    ...['curl', '-sS', '--fail-with-body', '-o', '/dev/null', '-X', 'POST', '-T', archive],
    ...['--retry', '1000', '--retry-all-errors', '--retry-delay', '1'],
    ...['-H', `Authorization: Bearer ${token}`, '-H', 'Content-Type: application/x-tar'],
    `http://127.0.0.1:${line.port}/v1/pipelines/p1/upload`,
  ];
  printCut('curl --retry', await overCuts(line, curl));
}

interface Cut extends Sample {
  sent: number;
  cuts: number;
}

/**
 * Runs a command while the connection keeps breaking at random points. `halfway` is called after half of the
 * breaks.
 */
async function overCuts(
  line: CuttingProxy,
  command: readonly string[],
  halfway: () => Promise<void> = async () => undefined,
): Promise<Cut> {
  const random = generator('cuts');
  const [before, cutBefore] = [line.passed('to the server'), line.cuts()];
  const ended = new AbortController();
  const isOver = (): boolean => ended.signal.aborted;
  const cutting = (async () => {
    for (let count = 0; count < cuts && !isOver(); count += 1) {
      if (count === Math.floor(cuts / 2)) await halfway();
      line.cutAfter(Math.floor(random() * 1.8 * ((mib << 20) / cuts)));
      while (line.cuts() - cutBefore <= count && !isOver()) await sleep(1);
    }
    line.cutAfter(0, 0);
  })();
  const sample = await measureBeside(command, { WAYBILL_TOKEN: token });
  ended.abort();
  await cutting;
  return { ...sample, sent: line.passed('to the server') - before, cuts: line.cuts() - cutBefore };
}

function printCut(name: string, { seconds, cpuSeconds, sent, cuts: made }: Cut): void {
  console.log(
    `  ${name.padEnd(28)} ${seconds.toFixed(1).padStart(8)} s ${cpuSeconds.toFixed(1).padStart(8)} s CPU ${(sent / 2 ** 20).toFixed(1).padStart(8)} MiB sent, ${made} cuts`,
  );
}

function run(program: string, args: readonly string[]): string {
  const { status, error, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${status}: ${stderr}${stdout}`);
  return stdout;
}
