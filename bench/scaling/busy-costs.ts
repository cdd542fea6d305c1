/**
 * Measures the cost of an upload and of its run while all processors are busy with other uploads and runs.
 */
import { readFileSync } from 'node:fs';
import { startCluster, untilDepth, uploadAll } from './cluster.ts';
import { residueOf, type ThreadTimes, threadTimes, type Usage, usageOf } from './usage.ts';

/** In milliseconds per upload. */
export interface BusyCosts {
  upload: ThreadTimes;
  run: ThreadTimes;
  /** Time spent in the kernel that does not belong to any process, for network and disks. */
  kernelMs: number;
}

/** The cost of things that go on in the background, which is subtracted. */
export interface Beside {
  /** The cost of an idle worker per second. */
  idle: Usage;
  /** The cost of a run for each worker that does not publish it. */
  otherWorker: Usage;
}

const processes = 2;

/**
 * Keeps all processors busy with two APIs, two workers, Redis and the clients. Under this load, everything
 * costs up to 50 % more, because processes share caches and threads move between processors.
 */
export async function busyCosts(
  root: string,
  { uploads, clients, pipelines }: { uploads: number; clients: number; pipelines: number },
  { idle, otherWorker }: Beside,
): Promise<BusyCosts> {
  const cluster = await startCluster({
    ...{ root, pipelines, apis: processes },
    ...{ workers: 0, concurrency: 2 },
  });
  try {
    const workers = await cluster.addWorkers(processes);
    // Run for as long as when the processors were idle, to get the code compiled to the same degree.
    await uploadAll(cluster, (uploads / 2) * processes, clients);
    await untilDepth(cluster, 0);
    const look = async () => ({
      atMs: performance.now(),
      apis: timesOf(cluster.apiPids),
      workers: timesOf(workers),
      redisMs: (await usageOf([], cluster.redis)).redisMs,
      ownMs: ownMs(),
      machineMs: machineMs(),
    });
    const before = await look();
    await uploadAll(cluster, uploads, clients);
    await untilDepth(cluster, 0);
    const after = await look();
    const grown = (of: (one: typeof before) => number): number => (of(after) - of(before)) / uploads;
    const besideMs = (key: keyof ThreadTimes): number =>
      (idle[key] * processes * grown(({ atMs }) => atMs)) / 1000 + otherWorker[key] * (processes - 1);
    const times = (who: 'apis' | 'workers', key: keyof ThreadTimes): number => grown((one) => one[who][key]);
    const charged = (['apis', 'workers'] as const).reduce(
      (sum, who) => sum + times(who, 'mainMs') + times(who, 'otherMs'),
      grown(({ redisMs, ownMs }) => redisMs + ownMs),
    );
    return {
      upload: { mainMs: times('apis', 'mainMs'), otherMs: times('apis', 'otherMs') },
      run: {
        mainMs: residueOf(times('workers', 'mainMs'), besideMs('mainMs')),
        otherMs: residueOf(times('workers', 'otherMs'), besideMs('otherMs')),
      },
      kernelMs: residueOf(
        grown(({ machineMs }) => machineMs),
        charged,
      ),
    };
  } finally {
    await cluster.close();
  }
}

function timesOf(pids: readonly number[]): ThreadTimes {
  const times = pids.map(threadTimes);
  return {
    mainMs: times.reduce((sum, { mainMs }) => sum + mainMs, 0),
    otherMs: times.reduce((sum, { otherMs }) => sum + otherMs, 0),
  };
}

function ownMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/**
 * Returns how long the processors of this machine have been busy since it was booted, in milliseconds. Does
 * not include idle time and waiting.
 */
function machineMs(): number {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n', 1);
  // In units of 10 ms: user, nice, system, idle, iowait, hardirq and softirq.
  const [user = 0, nice = 0, system = 0, , , hard = 0, soft = 0] = line.split(/\s+/).slice(1).map(Number);
  return (user + nice + system + hard + soft) * 10;
}
