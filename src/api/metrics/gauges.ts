import { Counter, Gauge, type Registry } from 'prom-client';
import type { ThreadStats } from '../../workers/threads/pool.ts';
import type { StreamStats } from '../runs/event-stream.ts';
import type { ConnectionStats } from '../http/listen.ts';
import type { JobQueue, KeptBundles } from '../../workers/queue.ts';
import type { Readiness, ReadinessFound } from '../daemon/readiness.ts';

export interface ObservedDaemon extends ObservedReadiness {
  queue: ObservedQueue;
  /** Ids of those that are configured now. */
  pipelines: () => Iterable<string>;
  /** Of the queue, as configured. */
  driver: string;
  threads: () => ThreadStats;
  connections: () => ConnectionStats;
  streams: () => StreamStats;
  partialUploads: () => { uploads: number; bytes: number };
  content: () => { files: number; bytes: number };
  /** Null if no weather database is configured. */
  weather: { isUp(): boolean } | null;
  /** Ids of those that are configured now. */
  notifiers: () => Iterable<string>;
  /** How many events are undelivered, of each notifier that has any. */
  undelivered: () => Promise<ReadonlyMap<string, number>>;
}

/** Adds gauges that look the daemon up whenever the metrics are read. */
export function observeDaemon(
  registry: Registry,
  {
    queue,
    pipelines,
    driver,
    threads,
    connections,
    streams,
    partialUploads,
    content,
    ...daemon
  }: ObservedDaemon,
): void {
  const { weather } = daemon;
  const registers = [registry];
  if (weather !== null)
    new Gauge({
      name: 'waybill_weather_database_up',
      help: '1 if the weather database answered when it was last asked, else 0.',
      registers,
      collect() {
        this.set(weather.isUp() ? 1 : 0);
      },
    });
  new Gauge({
    name: 'waybill_connections',
    help: 'Connections that are open.',
    registers,
    collect() {
      this.set(connections().open);
    },
  });
  new Counter({
    name: 'waybill_connections_refused_total',
    help: 'Connections that were closed at once because there were too many.',
    registers,
    collect() {
      this.reset();
      this.inc(connections().refused);
    },
  });
  observeQueue(registry, pipelines, queue, driver);
  observeReadiness(registry, daemon);
  observeStreams(registry, streams);
  observePartialUploads(registry, partialUploads);
  observeContent(registry, content);
  observeThreads(registry, threads);
  observeUndelivered(registry, daemon);
}

/** Where they cannot be counted, there is no such series. */
function observeUndelivered(
  registry: Registry,
  { notifiers, undelivered }: Pick<ObservedDaemon, 'notifiers' | 'undelivered'>,
): void {
  new Gauge({
    name: 'waybill_undelivered_events',
    help: 'Events that were given up and can be sent again.',
    labelNames: ['notifier'],
    registers: [registry],
    async collect() {
      this.reset();
      const counts = await undelivered().catch(() => null);
      if (counts === null) return;
      for (const notifier of notifiers()) this.set({ notifier }, 0);
      for (const [notifier, count] of counts) this.set({ notifier }, count);
    },
  });
}

function observeStreams(registry: Registry, streams: () => StreamStats): void {
  const registers = [registry];
  new Gauge({
    name: 'waybill_event_streams',
    help: 'Streams of events that are open.',
    registers,
    collect() {
      this.set(streams().open);
    },
  });
  new Counter({
    name: 'waybill_event_streams_ended_total',
    help: 'Streams of events that have ended, by why.',
    labelNames: ['end'],
    registers,
    collect() {
      this.reset();
      for (const [end, count] of Object.entries(streams().ended)) this.inc({ end }, count);
    },
  });
}

function observePartialUploads(registry: Registry, stats: ObservedDaemon['partialUploads']): void {
  const registers = [registry];
  new Gauge({
    name: 'waybill_partial_uploads',
    help: 'Resumable uploads that are not whole, or not accepted.',
    registers,
    collect() {
      this.set(stats().uploads);
    },
  });
  new Gauge({
    name: 'waybill_partial_uploads_bytes',
    help: 'Bytes that have come of resumable uploads that are not whole, or not accepted.',
    registers,
    collect() {
      this.set(stats().bytes);
    },
  });
}

function observeContent(registry: Registry, stats: ObservedDaemon['content']): void {
  const registers = [registry];
  new Gauge({
    name: 'waybill_kept_files',
    help: 'Files of uploads that are kept by digest, so that producers send only what changed.',
    registers,
    collect() {
      this.set(stats().files);
    },
  });
  new Gauge({
    name: 'waybill_kept_files_bytes',
    help: 'Room that the kept files take of what server.staging.keep.size allows each pipeline.',
    registers,
    collect() {
      this.set(stats().bytes);
    },
  });
}

/** Adds gauges of the worker threads. */
export function observeThreads(registry: Registry, threads: () => ThreadStats): void {
  const registers = [registry];
  new Gauge({
    name: 'waybill_worker_threads',
    help: 'Worker threads that are there.',
    registers,
    collect() {
      this.set(threads().threads);
    },
  });
  new Gauge({
    name: 'waybill_worker_threads_busy',
    help: 'Worker threads that publish.',
    registers,
    collect() {
      this.set(threads().busy);
    },
  });
  new Counter({
    name: 'waybill_worker_threads_replaced_total',
    help: 'Worker threads that broke or had to be ended.',
    registers,
    collect() {
      this.reset();
      this.inc(threads().replaced);
    },
  });
}

type ObservedQueue = Pick<JobQueue, 'depth' | 'kept' | 'overview' | 'pauses' | 'waitingSince'>;

/**
 * Adds gauges that ask the queue whenever the metrics are read. A queue that cannot be reached has none of
 * them; all other metrics are still reported.
 */
function observeQueue(
  registry: Registry,
  pipelines: () => Iterable<string>,
  queue: ObservedQueue,
  driver: string,
): void {
  const registers = [registry];
  new Gauge({
    name: 'waybill_queue_info',
    help: '1, with the driver of the queue: memory, embedded or bullmq.',
    labelNames: ['driver'],
    registers,
  }).set({ driver }, 1);
  new Gauge({
    name: 'waybill_queue_depth',
    help: 'Uploads being received (reserved), runs that wait (queued) and runs that run (running).',
    labelNames: ['state'],
    registers,
    async collect() {
      this.reset();
      const depth = await queue.depth().catch(() => null);
      const states: Record<string, number> = depth === null ? {} : { ...depth };
      for (const [state, count] of Object.entries(states)) this.set({ state }, count);
    },
  });
  new Gauge({
    name: 'waybill_queue_oldest_seconds',
    help: 'How long the run waits that waits longest; 0 if none of the pipeline waits.',
    labelNames: ['pipeline'],
    registers,
    async collect() {
      this.reset();
      const pipelineIds = [...pipelines()];
      const waiting = await queue.waitingSince(pipelineIds).catch(() => null);
      const now = Date.now();
      for (const [index, pipeline] of pipelineIds.entries()) {
        const since = waiting?.[index];
        const age = typeof since === 'string' ? (now - Date.parse(since)) / 1000 : 0;
        if (since !== undefined) this.set({ pipeline }, Math.max(age, 0));
      }
    },
  });
  new Gauge({
    name: 'waybill_runs_retrying',
    help: 'Runs that failed for a passing cause and wait for their next try.',
    labelNames: ['pipeline'],
    registers,
    async collect() {
      this.reset();
      const pipelineIds = [...pipelines()];
      const overviews = await queue.overview(pipelineIds).catch(() => []);
      for (const [index, { retrying, isAway }] of overviews.entries())
        if (isAway !== true) this.set({ pipeline: pipelineIds[index] ?? '' }, retrying);
    },
  });
  new Gauge({
    name: 'waybill_pipeline_paused',
    help: '1 if no run of the pipeline begins, because it is paused, else 0.',
    labelNames: ['pipeline'],
    registers,
    async collect() {
      this.reset();
      const pauses = await queue.pauses().catch(() => null);
      if (pauses !== null)
        for (const pipeline of pipelines()) this.set({ pipeline }, pauses.has(pipeline) ? 1 : 0);
    },
  });
  observeKept(registry, queue);
}

function observeKept(registry: Registry, queue: Pick<JobQueue, 'kept'>): void {
  const registers = [registry];
  const gauge = (name: string, help: string, member: keyof KeptBundles): Gauge =>
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        const kept = await queue.kept().catch(() => null);
        if (kept === null) this.remove();
        else this.set(kept[member]);
      },
    });
  gauge('waybill_kept_bundles', 'Bundles of ended runs that are staged to be run again.', 'bundles');
  gauge('waybill_kept_bundles_bytes', 'Bytes of the bundles of ended runs that are staged.', 'bytes');
}

export interface ObservedReadiness {
  readiness: Readiness;
  /** Room for uploads that are received. */
  freeBytes: () => Promise<number>;
}

/** Adds gauges that look, whenever the metrics are read, whether uploads are taken. */
export function observeReadiness(registry: Registry, { readiness, freeBytes }: ObservedReadiness): void {
  const registers = [registry];
  let looking: Promise<ReadinessFound | null> | undefined;
  // Both gauges are read at once; a defect is for readiness itself to report.
  const look = (): Promise<ReadinessFound | null> =>
    (looking ??= readiness
      .look()
      .catch(() => null)
      .finally(() => (looking = undefined)));
  new Gauge({
    name: 'waybill_ready',
    help: '1 if uploads are taken, as /readyz says, else 0.',
    registers,
    async collect() {
      const found = await look();
      this.set(found !== null && found.failure === null ? 1 : 0);
    },
  });
  new Gauge({
    name: 'waybill_staging_free_bytes',
    help: 'Room on the disk into which uploads are received.',
    registers,
    async collect() {
      // A disk that hangs would take a thread of the pool for each scrape.
      const found = await look();
      const isKnown = found?.checks.some(({ name, state }) => name === 'staging' && state === 'ok') ?? false;
      const free = isKnown ? await freeBytes().catch(() => null) : null;
      if (free === null) this.remove();
      else this.set(free);
    },
  });
  new Gauge({
    name: 'waybill_check_up',
    help: '1 if what the process depends on can be used, else 0.',
    labelNames: ['check'],
    registers,
    async collect() {
      const found = await look();
      this.reset();
      for (const { name, state } of found?.checks ?? []) this.set({ check: name }, state === 'ok' ? 1 : 0);
    },
  });
}
