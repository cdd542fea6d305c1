/** Measures the cost of everything that waybill does, in order to estimate the hardware for a given load. */
import http from 'node:http';
import path from 'node:path';
import { Redis } from 'ioredis';
import { inParallel } from '../client.ts';
import { token } from '../daemon.ts';
import { busyCosts } from './busy-costs.ts';
import {
  type Cluster,
  smallBundle,
  startCluster,
  type Times,
  timesOf,
  untilDepth,
  type Upload,
  uploadAll,
} from './cluster.ts';
import { requestsToS3, type WeatherRead, weatherReads } from './other-costs.ts';
import { residentKiB, residueOf, type Usage, usageOf, usedFor, without } from './usage.ts';

/**
 * All times are in milliseconds. Uploads and runs are measured while all processors are busy; see
 * `busy-costs.ts`. Everything else is measured by itself.
 */
export interface Costs {
  /** The cost for the API of uploading two small files, until the 202. */
  upload: Usage;
  /** The cost for a worker of publishing the upload to a local directory. */
  run: Usage;
  /** Kernel time for both of them that does not belong to any process. */
  kernelMs: number;
  /** The time between the end of a run and the beginning of the worker's next one. */
  turnaroundMs: number;
  /** The cost of a run for each worker that does not publish it. */
  otherWorker: Usage;
  /** The cost of a `GET /v1/runs/{run_id}` request. */
  poll: Usage;
  /** The cost of sending an event about a run to one subscriber. */
  event: Usage;
  /** The memory that the API needs for an open stream. */
  subscriberKiB: number;
  /** The cost of an idle worker per second: for the process itself, and for each pipeline. */
  idle: { process: Usage; pipeline: Usage };
  /**
   * The cost of a weather request, with a cached response and with a read from the database. `databaseMs` is
   * the time in PostgreSQL.
   */
  weather: { kept: WeatherRead; read: WeatherRead };
  /** The number of S3 requests for publishing two small files, if they are new and if nothing has changed. */
  s3Requests: { created: number; unchanged: number };
  /** The number of bytes on the network, except for Redis. */
  bytes: { upload: number; poll: number; event: number; weather: number };
  /** The cost of one of this benchmark's clients, per upload. */
  clientMs: number;
  /** The duration of a single upload and its run if the machine is otherwise idle. The times are sorted. */
  unhurried: { acceptedMs: number[]; ranMs: number[] };
}

/** The costs that are measured one operation at a time. */
type Alone = Omit<Costs, 'kernelMs' | 'weather' | 's3Requests' | 'bytes' | 'idle'> & {
  /** The cost per second of an idle worker with few pipelines. */
  idle: Usage;
  bytes: Omit<Costs['bytes'], 'weather'>;
};

const uploads = Number(process.env['BENCH_UPLOADS'] ?? 2000);
const polls = 4000;
const few = 20;
const many = 220;
const clients = 32;
/** The number of concurrent runs in a worker. */
const concurrency = 2;

export async function measureCosts(root: string): Promise<Costs> {
  const { idle, ...queue } = await ofQueue(path.join(root, 'few'));
  const { otherWorker } = queue;
  const size = { uploads, clients, pipelines: few };
  const busy = await busyCosts(path.join(root, 'busy'), size, { idle, otherWorker });
  const pipeline = usedFor(idle, await idleWith(path.join(root, 'many'), many), many - few);
  const weather = await weatherReads(path.join(root, 'weather'));
  return {
    ...queue,
    upload: { ...queue.upload, ...busy.upload },
    run: { ...queue.run, ...busy.run },
    kernelMs: busy.kernelMs,
    bytes: { ...queue.bytes, weather: weather.bytes },
    idle: { process: without(idle, pipeline, few), pipeline },
    weather,
    s3Requests: await requestsToS3(path.join(root, 's3')),
  };
}

async function ofQueue(root: string): Promise<Alone> {
  const cluster = await startCluster({
    root,
    pipelines: few,
    apis: 1,
    workers: 0,
    concurrency,
  });
  try {
    const { apiPids: apis, redis } = cluster;
    const used = async (pids: readonly number[], count: number, work: () => Promise<unknown>) => {
      const before = await usageOf(pids, redis);
      await work();
      return usedFor(before, await usageOf(pids, redis), count);
    };
    // Warm up first, to get the code compiled.
    await uploadAll(cluster, uploads / 2, clients);
    const before = process.cpuUsage();
    let taken: Upload[] = [];
    const upload = await used(
      apis,
      uploads,
      async () => (taken = await uploadAll(cluster, uploads, clients)),
    );
    const own = process.cpuUsage(before);
    const clientMs = (own.user + own.system) / 1000 / uploads;

    const workers = await cluster.addWorkers(1);
    await untilDepth(cluster, uploads);
    const run = await used(workers, uploads, () => untilDepth(cluster, 0));
    const turnaroundMs = turnaround(await timesOf(cluster, taken));
    const idle = await used(workers, idleSeconds, () => pause(idleSeconds));

    const sequential = await uploadAll(cluster, 200, 1);
    await untilDepth(cluster, 0);
    const times = await timesOf(cluster, sequential);
    const unhurried = {
      acceptedMs: sorted(sequential.map(({ acceptedMs }) => acceptedMs)),
      ranMs: sorted(times.map(({ ranMs }) => ranMs)),
    };

    const location = new URL(sequential[0]!.location, cluster.urls[0]).href;
    await ask(location, polls / 4);
    let pollBytes = 0;
    const poll = await used(apis, polls, async () => (pollBytes = await ask(location, polls)));

    const followed = await ofFollowers(cluster);
    const otherWorker = await hearingOfRuns(cluster, workers, idle);
    const { event, subscriberKiB } = followed;
    const bytes = {
      upload: smallBundle().length + headBytes,
      poll: pollBytes / polls + headBytes,
      event: followed.bytes,
    };
    return {
      upload,
      run,
      turnaroundMs,
      otherWorker,
      poll,
      event,
      subscriberKiB,
      idle,
      unhurried,
      clientMs,
      bytes,
    };
  } finally {
    await cluster.close();
  }
}

/**
 * Returns how long it takes on average from the end of a run until the next one begins. All runs must have
 * been queued before the first one began.
 */
function turnaround(runs: readonly Times[]): number {
  const begun = Math.min(...runs.map(({ finished, ranMs }) => finished - ranMs));
  const ended = Math.max(...runs.map(({ finished }) => finished));
  const ranMs = runs.reduce((sum, run) => sum + run.ranMs, 0);
  return residueOf((ended - begun) * concurrency, ranMs) / runs.length;
}

/**
 * Measures the cost of a run for a worker that could have taken it but was too late. The worker is notified
 * about the pipeline and looks for a job. This happens when the run is accepted, and again when the previous
 * run of the pipeline ends, if the run had to wait for it. The benchmark only sends such a notification
 * without a run, so that nothing else is measured. The cost to Redis includes publishing the notification.
 */
async function hearingOfRuns(cluster: Cluster, workers: readonly number[], idle: Usage): Promise<Usage> {
  const redis = new Redis(cluster.redis.url);
  try {
    const notify = async (runs: number): Promise<void> => {
      for (let index = 0; index < runs; index += 1) {
        await redis.publish('waybill:wake', `p${index % cluster.pipelines}`);
        // Leave some time in between. Otherwise, the worker would handle several notifications at once.
        await pause(0.002);
      }
    };
    await notify(uploads / 4);
    const before = await usageOf(workers, cluster.redis);
    const since = performance.now();
    await notify(uploads);
    const seconds = (performance.now() - since) / 1000;
    return usedFor(before, without(await usageOf(workers, cluster.redis), idle, seconds), uploads);
  } finally {
    redis.disconnect();
  }
}

const idleSeconds = 10;
/** The approximate size of the headers of a request and its response. */
const headBytes = 900;

async function idleWith(root: string, pipelines: number): Promise<Usage> {
  const options = { root, pipelines, apis: 1, workers: 0, concurrency } as const;
  const cluster = await startCluster(options);
  try {
    const pids = await cluster.addWorkers(1);
    await pause(5);
    const before = await usageOf(pids, cluster.redis);
    await pause(idleSeconds);
    return usedFor(before, await usageOf(pids, cluster.redis), idleSeconds);
  } finally {
    await cluster.close();
  }
}

/** Sends this many requests, one after another. Returns the total size of the response bodies in bytes. */
async function ask(url: string, count: number): Promise<number> {
  let bytes = 0;
  await inParallel(count, clients, async () => {
    const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    bytes += (await answer.arrayBuffer()).byteLength;
  });
  return bytes;
}

/**
 * Measures the cost of streams by comparing the same uploads with and without them. Returns the cost of an
 * open stream, and of sending an event to it.
 */
async function ofFollowers(
  cluster: Cluster,
): Promise<{ event: Usage; subscriberKiB: number; bytes: number }> {
  const [pid] = cluster.apiPids as [number];
  const followers = 200;
  const runs = 100;
  const used = async (): Promise<Usage> => {
    const before = await usageOf([pid], cluster.redis);
    await uploadAll(cluster, runs, 4);
    await untilDepth(cluster, 0);
    return usedFor(before, await usageOf([pid], cluster.redis), 1);
  };
  const alone = await used();
  const before = residentKiB(pid);
  let [events, bytes] = [0, 0];
  const streams = await Promise.all(
    Array.from({ length: followers }, () =>
      follow(`${cluster.urls[0]}v1/events?limit=1`, (chunk) => {
        bytes += chunk.length;
        events += chunk.match(/^event: run$/gm)?.length ?? 0;
      }),
    ),
  );
  const subscriberKiB = (residentKiB(pid) - before) / followers;
  [events, bytes] = [0, 0];
  const followed = await used();
  for (const stream of streams) stream.destroy();
  if (events < followers * runs) throw new Error(`${events} changes of ${runs} runs came to ${followers}`);
  return { event: usedFor(alone, followed, events), subscriberKiB, bytes: bytes / events };
}

/** Opens a stream. Resolves to the request once it has begun. */
function follow(url: string, onChunk: (chunk: string) => void): Promise<http.ClientRequest> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` };
    const request = http.get(url, { headers, agent: false }, (response) => {
      response.setEncoding('utf8').on('data', (chunk: string) => {
        onChunk(chunk);
        resolve(request);
      });
    });
    request.on('error', reject);
  });
}

function sorted(values: readonly number[]): number[] {
  return values.map((value) => Math.round(value * 10) / 10).sort((a, b) => a - b);
}

function pause(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}
