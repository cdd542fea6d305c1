/** What an upload and its run cost while all processors are busy with others of their kind. */
import { readFileSync } from 'node:fs';
import { startCluster, untilDepth, uploadAll } from './cluster.ts';
import { residueOf, type ThreadTimes, threadTimes, type Usage, usageOf } from './usage.ts';

/** Times in milliseconds, for each upload. */
export interface BusyCosts {
  upload: ThreadTimes;
  run: ThreadTimes;
  /** Of the kernel, for which no process is charged: network and disk. */
  kernelMs: number;
}

/** What is not of an upload or a run, and goes on beside it. */
export interface Beside {
  /** What a worker does in a second without work. */
  idle: Usage;
  /** What it does for a run of another. */
  otherWorker: Usage;
}

const processes = 2;

/**
 * Two APIs and two workers, which share the processors with Redis and the clients. What something costs then
 * is up to half more than what it costs alone: caches are shared, and threads are moved between processors.
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
    // Code is compiled before it counts, as long as where things are measured alone.
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

/** Of all processors of this machine so far, but for when they waited. */
function machineMs(): number {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n', 1);
  // user, nice, system, idle, waiting for a disk, interrupts, and what they have put off; in 10 ms.
  const [user = 0, nice = 0, system = 0, , , hard = 0, soft = 0] = line.split(/\s+/).slice(1).map(Number);
  return (user + nice + system + hard + soft) * 10;
}
