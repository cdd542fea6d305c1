/** Calculates how much hardware is needed for a given load, based on the measured costs. */
import type { Costs } from './costs.ts';

export interface Load {
  name: string;
  runsPerSecond: number;
  /**
   * Each of them is open in a browser, gets an event about a run every ten seconds, and requests weather data
   * once a minute.
   */
  dashboards: number;
}

export interface Needs {
  apis: number;
  workers: number;
  /**
   * The number of Redis servers that this load would need. There can be only one, so anything above 1 is too
   * much.
   */
  redis: number;
  /** The number of pipelines to spread the runs over, since each pipeline has only one run at a time. */
  pipelines: number;
  /** The number of machines with `coresPerHost` cores for the APIs and workers. */
  hosts: number;
  weatherReaders: number;
  megabitsPerSecond: number;
  s3RequestsPerSecond: number;
  /** The share of Redis's processor time that goes into workers looking for something to do. */
  lookingShare: number;
  firstLimit: string;
}

export const coresPerHost = 8;
/** If a thread or core is busier than this, new work has to wait for too long. */
const busy = 0.6;
const changesPerSecond = 0.1;
const readsPerSecond = 1 / 60;
/** The maximum number of connections to one process. */
const streamsPerApi = 10_000;
/** The network bandwidth of a host. */
const hostMegabits = 10_000;

export const loads: readonly Load[] = [
  { name: '10² runs/s', runsPerSecond: 1e2, dashboards: 100 },
  { name: '10³ runs/s', runsPerSecond: 1e3, dashboards: 1_000 },
  { name: '10⁴ runs/s', runsPerSecond: 1e4, dashboards: 10_000 },
  { name: '10⁵ runs/s', runsPerSecond: 1e5, dashboards: 100_000 },
  { name: '10⁶ dashboards', runsPerSecond: 1e2, dashboards: 1e6 },
];

export function needsOf(load: Load, costs: Costs): Needs {
  const { runsPerSecond, dashboards } = load;
  const changes = dashboards * changesPerSecond;
  const reads = dashboards * readsPerSecond;
  const api = apisFor(load, changes, costs);
  const queue = queueFor(runsPerSecond, costs);
  const { workers } = queue;
  const readersMs = reads * costs.weather.read.ms;
  const kernelMs = runsPerSecond * costs.kernelMs;
  const hosts = processesFor(api.ms + queue.workersMs + kernelMs + readersMs, coresPerHost);
  const { bytes, s3Requests } = costs;
  const megabitsPerSecond =
    ((runsPerSecond * bytes.upload + changes * bytes.event + reads * bytes.weather) * 8) / 1e6;
  const firstLimit = limitOf(
    {
      'every worker is notified of every run': queue.lookingMs / 1000 / busy,
      Redis: queue.redis,
      'the network of a host': megabitsPerSecond / hostMegabits / hosts,
    },
    { 'main thread of the API': api.processes, 'the processors of workers': workers },
  );
  return {
    apis: api.processes,
    workers,
    redis: queue.redis,
    hosts,
    firstLimit,
    pipelines: pipelinesFor(runsPerSecond, costs),
    lookingShare: queue.lookingShare,
    weatherReaders: processesFor(readersMs, 1),
    megabitsPerSecond,
    s3RequestsPerSecond: runsPerSecond * s3Requests.created,
  };
}

/**
 * Returns how many cores or threads are needed for this many milliseconds of work per second, if they must
 * not be too busy.
 */
function processesFor(ms: number, cores: number): number {
  return Math.ceil(ms / 1000 / busy / cores);
}

function apisFor(
  { runsPerSecond, dashboards }: Load,
  changes: number,
  { upload, event }: Costs,
): { processes: number; ms: number } {
  const mainMs = runsPerSecond * upload.mainMs + changes * event.mainMs;
  return {
    processes: Math.max(processesFor(mainMs, 1), Math.ceil(dashboards / streamsPerApi), 1),
    ms: mainMs + runsPerSecond * upload.otherMs + changes * event.otherMs,
  };
}

/** A pipeline has only one run at a time. */
function pipelinesFor(runsPerSecond: number, { unhurried: { ranMs } }: Costs): number {
  const mean = ranMs.reduce((sum, ms) => sum + ms, 0) / ranMs.length;
  return Math.max(1, processesFor(runsPerSecond * mean, 1));
}

/** `lookingMs` is what a worker spends on idle pipelines and on runs that other workers take. */
interface QueueNeeds {
  workers: number;
  redis: number;
  workersMs: number;
  lookingMs: number;
  lookingShare: number;
}

function queueFor(runsPerSecond: number, costs: Costs): QueueNeeds {
  const { upload, run, otherWorker, idle } = costs;
  const pipelines = pipelinesFor(runsPerSecond, costs);
  const runsMs = runsPerSecond * (run.mainMs + run.otherMs);
  // The threads of a worker can use up to four cores. The main thread needs some time of its own.
  const workers = Math.max(1, processesFor(runsMs, 4));
  const pipelinesMs = workers * pipelines * idle.pipeline.redisMs;
  const hearingMs = runsPerSecond * (workers - 1) * otherWorker.redisMs;
  const ownMs = runsPerSecond * (upload.redisMs + run.redisMs);
  const lookingRedisMs = hearingMs + pipelinesMs + workers * idle.process.redisMs;
  const lookingMs =
    (workers > 1 ? runsPerSecond * otherWorker.mainMs : 0) +
    idle.process.mainMs +
    pipelines * idle.pipeline.mainMs;
  return {
    workers,
    lookingMs,
    redis: (ownMs + lookingRedisMs) / 1000 / busy,
    lookingShare: 1 - ownMs / (ownMs + lookingRedisMs),
    // This happens on the main thread, which cannot use more than one core.
    workersMs: runsMs + workers * Math.min(1000, lookingMs),
  };
}

/**
 * Returns the bottleneck. If there is one that more processes cannot remove, returns that one. Otherwise,
 * returns the resource that needs the most processes.
 */
function limitOf(hard: Readonly<Record<string, number>>, soft: Readonly<Record<string, number>>): string {
  const most = (limits: Readonly<Record<string, number>>): [string, number] =>
    Object.entries(limits).reduce((one, other) => (other[1] > one[1] ? other : one));
  const [name, load] = most(hard);
  return load > 1 ? name : most(soft)[0];
}
