import { Counter, Gauge, type Registry } from 'prom-client';
import type { JobQueue } from '../../workers/queue.ts';
import type { ThreadStats } from '../../workers/threads/pool.ts';
import type { StreamStats } from '../live/streams.ts';
import type { ConnectionStats } from '../http/listen.ts';

export interface ObservedDaemon {
  queue: Pick<JobQueue, 'depth' | 'pauses'>;
  /** Of the queue, as configured. */
  driver: string;
  threads: () => ThreadStats;
  connections: () => ConnectionStats;
  streams: () => StreamStats;
  /** Null if no weather database is configured. */
  weather: { isUp(): boolean } | null;
}

/** Adds gauges that look the daemon up whenever the metrics are read. */
export function observeDaemon(
  registry: Registry,
  pipelineIds: readonly string[],
  { queue, driver, threads, connections, streams, weather }: ObservedDaemon,
): void {
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
      // A queue that cannot be reached has no depth; all other metrics are still reported.
      const depth = await queue.depth().catch(() => null);
      const states: Record<string, number> = depth === null ? {} : { ...depth };
      for (const [state, count] of Object.entries(states)) this.set({ state }, count);
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
        for (const pipeline of pipelineIds) this.set({ pipeline }, pauses.has(pipeline) ? 1 : 0);
    },
  });
  observeStreams(registry, streams);
  observeThreads(registry, threads);
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
