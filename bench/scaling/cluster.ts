/** Starts real processes and a real Redis server to measure. */
import { bundleTar } from '../../test/fixtures/tar.ts';
import { type RedisService, startRedis } from '../../test/services/redis.ts';
import { inParallel, send } from '../client.ts';
import { type Daemon, type SharedQueue, startDaemon, token } from '../daemon.ts';

export interface Cluster extends Daemon {
  redis: RedisService;
  /** The URLs of all APIs. */
  urls: readonly string[];
  apiPids: readonly number[];
  pipelines: number;
  close(): Promise<void>;
}

export interface ClusterOptions {
  root: string;
  pipelines: number;
  apis: number;
  workers: SharedQueue['workers'];
  /** The number of concurrent runs in each worker process. */
  concurrency: number;
}

export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const { root, pipelines, apis, workers, concurrency } = options;
  const redis = await startRedis();
  try {
    const daemon = await startDaemon({
      root,
      pipelines,
      http: `queue_size: 100000, max_streams: 2000, max_connections: 4000, max_concurrency: ${concurrency}`,
      shared: { redisUrl: redis.url, apis, workers },
    });
    const processes = [daemon, ...daemon.others];
    return {
      ...daemon,
      redis,
      pipelines,
      urls: processes.map(({ url }) => url),
      apiPids: processes.map(({ pid }) => pid),
      close: async () => {
        await daemon.stop();
        await redis.close();
      },
    };
  } catch (error) {
    await redis.close();
    throw error;
  }
}

/** An upload from the perspective of the client. `begun` is in milliseconds since the epoch. */
export interface Upload {
  acceptedMs: number;
  location: string;
  begun: number;
}

let bundles = 0;

/**
 * Uploads many small bundles, taking turns between all APIs and pipelines. Each client sends one bundle at a
 * time.
 */
export async function uploadAll(cluster: Cluster, count: number, clients: number): Promise<Upload[]> {
  const uploads: Upload[] = [];
  await inParallel(count, clients, async (index) => {
    const begun = Date.now();
    const since = performance.now();
    const url = cluster.urls[index % cluster.urls.length]!;
    const location = await send(url, `p${index % cluster.pipelines}`, smallBundle());
    uploads[index] = { begun, acceptedMs: performance.now() - since, location };
  });
  return uploads;
}

/** Creates a bundle with two small files. */
export function smallBundle(): Buffer {
  const index = (bundles += 1);
  const content = { 'index.html': `<p>${index}</p>`, 'data.json': `{"n": ${index}}` };
  return bundleTar(content, { name: `session-${index}` });
}

/** Returns how many runs are queued or running. The number is in the metrics of any API. */
export async function depthOf(cluster: Cluster): Promise<number> {
  const text = await (await fetch(`${cluster.urls[0]}metrics`)).text();
  return [...text.matchAll(/^waybill_queue_depth\{state="(?:queued|running)"\} (\d+)/gm)].reduce(
    (sum, [, depth]) => sum + Number(depth),
    0,
  );
}

/**
 * Waits until no more than this many runs are queued or running. Does not check often, because that would be
 * additional load for the API.
 */
export async function untilDepth(cluster: Cluster, most: number): Promise<void> {
  while ((await depthOf(cluster)) > most) await new Promise((resolve) => setTimeout(resolve, 250));
}

export interface Times {
  /** The time between the beginning of the upload and the beginning of the run. */
  waitedMs: number;
  ranMs: number;
  /** In milliseconds since the epoch. */
  finished: number;
}

/**
 * Reads from the run records when the run of each upload began and ended. Throws if one has not succeeded.
 */
export async function timesOf(cluster: Cluster, uploads: readonly Upload[]): Promise<Times[]> {
  const times: Times[] = [];
  await inParallel(uploads.length, 16, async (index) => {
    const { location, begun } = uploads[index]!;
    const response = await fetch(new URL(location, cluster.urls[0]), {
      headers: { authorization: `Bearer ${token}` },
    });
    const run = (await response.json()) as { status: string; started_at: string; finished_at: string };
    if (run.status !== 'succeeded') throw new Error(`${location}: ${JSON.stringify(run)}`);
    const [started, finished] = [Date.parse(run.started_at), Date.parse(run.finished_at)];
    times[index] = { waitedMs: started - begun, ranMs: finished - started, finished };
  });
  return times;
}
