import { Counter, Gauge, type Registry } from 'prom-client';
import type { ThreadStats } from '../../workers/threads/pool.ts';
import type { StreamStats } from '../live/streams.ts';
import type { ConnectionStats } from '../http/listen.ts';
import { observeQueue, type ObservedQueue } from './queue-gauges.ts';
import { observeReadiness, type ObservedReadiness } from './readiness-gauges.ts';

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
