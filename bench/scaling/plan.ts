/** From what each thing costs to how much hardware a load takes. */
import type { Costs } from './costs.ts';

export interface Load {
  name: string;
  runsPerSecond: number;
  /** Each follows its pipelines live, sees a change every ten seconds, and reads weather once a minute. */
  dashboards: number;
}

export interface Needs {
  apis: number;
  workers: number;
  shards: number;
  /** Those with runs one after another, so that none waits for long. */
  pipelines: number;
  /** Machines with `coresPerHost` for APIs and workers. */
  hosts: number;
  weatherReaders: number;
  megabitsPerSecond: number;
  s3RequestsPerSecond: number;
  /** Processor time of Redis that goes to workers that look for work, as a share of it all. */
  lookingShare: number;
  firstLimit: string;
}

export const coresPerHost = 8;
/** A thread, or a core, that is busier keeps what comes next waiting for too long. */
const busy = 0.6;
const changesPerSecond = 0.1;
const readsPerSecond = 1 / 60;
/** What one process holds open without trouble. */
const streamsPerApi = 10_000;
/** Of a host. */
const hostMegabits = 10_000;

export const loads: readonly Load[] = [
  { name: '10² runs/s', runsPerSecond: 1e2, dashboards: 100 },
  { name: '10³ runs/s', runsPerSecond: 1e3, dashboards: 1_000 },
  { name: '10⁴ runs/s', runsPerSecond: 1e4, dashboards: 10_000 },
  { name: '10⁵ runs/s', runsPerSecond: 1e5, dashboards: 100_000 },
  { name: '10⁶ dashboards', runsPerSecond: 1e2, dashboards: 1e6 },
];

export function needsOf({ runsPerSecond, dashboards }: Load, costs: Costs): Needs {
  const changes = dashboards * changesPerSecond;
  const apiMainMs = runsPerSecond * costs.upload.mainMs + changes * costs.event.mainMs;
  const apiMs = apiMainMs + runsPerSecond * costs.upload.otherMs + changes * costs.event.otherMs;
  const apis = Math.ceil(Math.max(apiMainMs / 1000 / busy, dashboards / streamsPerApi, 1));

  const ran = costs.unhurried.ranMs;
  const ranMs = ran.reduce((sum, ms) => sum + ms, 0) / ran.length;
  const pipelines = Math.ceil(Math.max(1, (runsPerSecond * ranMs) / 1000 / busy));
  const workerMs = runsPerSecond * (costs.run.mainMs + costs.run.otherMs);
  // A worker is a process whose threads fill four cores; what it does for the runs of others and for
  // pipelines without work comes on top, in its main thread.
  const workers = Math.ceil(Math.max(workerMs / 1000 / busy / 4, 1));
  const lookingMs =
    runsPerSecond * (workers - 1) * costs.otherWorker.redisMs +
    workers * (costs.idle.process.redisMs + pipelines * costs.idle.pipeline.redisMs);
  const redisMs = runsPerSecond * (costs.upload.redisMs + costs.run.redisMs) + lookingMs;
  const shards = Math.ceil(redisMs / 1000 / busy);
  // Its main thread has no more than one core for it.
  const lookedFor =
    runsPerSecond * (workers > 1 ? costs.otherWorker.mainMs : 0) +
    costs.idle.process.mainMs +
    pipelines * costs.idle.pipeline.mainMs;
  const workerLookingMs = Math.min(1000, lookedFor);

  const reads = dashboards * readsPerSecond;
  const weatherReaders = Math.ceil((reads * costs.weather.read.ms) / 1000 / busy);
  const hosts = Math.ceil(
    (apiMs + workerMs + workers * workerLookingMs + reads * costs.weather.read.ms) /
      1000 /
      busy /
      coresPerHost,
  );
  const megabitsPerSecond =
    ((runsPerSecond * costs.bytes.upload + changes * costs.bytes.event + reads * costs.bytes.weather) * 8) /
    1e6;
  const s3RequestsPerSecond = runsPerSecond * costs.s3Requests.created;
  const firstLimit = limitOf(
    {
      'workers, each of which hears of every run': lookedFor / 1000 / busy,
      'the network of a host': megabitsPerSecond / hostMegabits / hosts,
    },
    { 'the main thread of an API': apis, 'the processors of workers': workers, Redis: shards },
  );
  return {
    ...{ apis, workers, shards, pipelines, hosts, weatherReaders },
    ...{ megabitsPerSecond, s3RequestsPerSecond, lookingShare: lookingMs / redisMs, firstLimit },
  };
}

/**
 * What more processes do not help against, where it is more than there can be; else what there have to be
 * most of.
 */
function limitOf(hard: Readonly<Record<string, number>>, soft: Readonly<Record<string, number>>): string {
  const most = (limits: Readonly<Record<string, number>>): [string, number] =>
    Object.entries(limits).reduce((one, other) => (other[1] > one[1] ? other : one));
  const [name, load] = most(hard);
  return load > 1 ? name : most(soft)[0];
}
