import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';
import type { ConnectionStats } from '../http/listen.ts';
import type { RunResult } from '../../core/publish/results/result.ts';
import type { ThreadStats } from '../../workers/threads/pool.ts';
import type { JobQueue } from '../../workers/queue.ts';
import { weatherMetrics, type WeatherMetrics } from './weather-metrics.ts';
import type { RunObserver } from '../../workers/run-observer.ts';

/**
 * What the daemon measures. Labels take their values from the configuration, the routes or a closed list:
 * never a path, a run id or a client.
 */
export interface Metrics extends WeatherMetrics {
  /** Records an answered request, or one whose client disconnected first (`status` null). */
  request(done: AnsweredRequest): void;
  /** Records an answered upload: `accepted`, `replayed`, or the error code. */
  upload(done: { pipelineId: string | null; result: string }): void;
  /** Adds bytes read from an archive. */
  received(pipelineId: string, bytes: number): void;
  /** Adds the bytes of a staged bundle's files. */
  extracted(pipelineId: string, bytes: number): void;
  /** Records how late the event loop was. */
  loopLag(seconds: number): void;
  runs: RunObserver;
  /** Records the outcome of one event at one notifier, after the last try. */
  recordDelivery(delivery: { notifierId: string; delivered: boolean }): void;
  /** Adds gauges that look the daemon up whenever the metrics are read. Called once. */
  observe(daemon: ObservedDaemon): void;
  /** All metrics in Prometheus's text format, and its media type. */
  contentType: string;
  text(): Promise<string>;
}

export interface ObservedDaemon {
  queue: Pick<JobQueue, 'depth'>;
  threads: () => ThreadStats;
  connections: () => ConnectionStats;
  /** Null if no weather database is configured. */
  weather: { isUp(): boolean } | null;
}

export interface AnsweredRequest {
  method: string;
  /** With parameter names; null if no route matched. */
  route: string | null;
  status: number | null;
  seconds: number;
}

export interface MetricsOptions {
  version: string;
  nodeVersion: string;
  /** The series of their runs start at zero, so that the first run already counts as an increase. */
  pipelineIds: readonly string[];
}

// All other methods that clients may send share one series.
const knownMethods = new Set(['GET', 'HEAD', 'POST']);

// A request without a body takes milliseconds, a large upload many minutes.
const requestBuckets = [0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800];
const lagBuckets = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10];
const runBuckets = [0.05, 0.2, 1, 5, 20, 60, 300, 1200, 3600];
const waitBuckets = [0.01, 0.1, 1, 5, 20, 60, 300, 1200, 3600];

/** The metrics of one daemon, in a registry of their own. `docs/metrics.md` lists them. */
export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const define = definer(registry);
  reportBuild(define, options);
  return {
    ...httpMetrics(define),
    ...loopMetrics(define),
    ...uploadMetrics(define),
    runs: runMetrics(define, options.pipelineIds),
    ...deliveryMetrics(define),
    ...weatherMetrics(define),
    observe: (daemon) => observeDaemon(registry, daemon),
    contentType: registry.contentType,
    text: () => registry.metrics(),
  };
}

interface Definer {
  counter: (name: string, help: string, labelNames: string[]) => Counter;
  histogram: (name: string, help: string, labelNames: string[], buckets: number[]) => Histogram;
  gauge: (name: string, help: string, labelNames: string[]) => Gauge;
}

function definer(registry: Registry): Definer {
  const registers = [registry];
  return {
    counter: (name, help, labelNames) => new Counter({ name, help, labelNames, registers }),
    histogram: (name, help, labelNames, buckets) =>
      new Histogram({ name, help, labelNames, buckets, registers }),
    gauge: (name, help, labelNames) => new Gauge({ name, help, labelNames, registers }),
  };
}

function reportBuild({ gauge }: Definer, { version, nodeVersion }: MetricsOptions): void {
  const info = gauge('waybill_build_info', 'Always 1; the labels tell what runs.', [
    'version',
    'node_version',
  ]);
  info.set({ version, node_version: nodeVersion }, 1);
}

function httpMetrics({ counter, histogram }: Definer): Pick<Metrics, 'request'> {
  const requests = counter('waybill_http_requests_total', 'Answered requests.', [
    'method',
    'route',
    'status',
  ]);
  const requestSeconds = histogram(
    'waybill_http_request_duration_seconds',
    'From the head of a request to the end of its answer.',
    ['method', 'route'],
    requestBuckets,
  );
  return {
    request: ({ method, route, status, seconds }) => {
      const labels = { method: knownMethods.has(method) ? method : 'other', route: route ?? 'none' };
      requests.inc({ ...labels, status: status ?? 'none' });
      requestSeconds.observe(labels, seconds);
    },
  };
}

function loopMetrics({ histogram }: Definer): Pick<Metrics, 'loopLag'> {
  const lag = histogram(
    'waybill_event_loop_lag_seconds',
    'How late the event loop was, measured ten times a second.',
    [],
    lagBuckets,
  );
  return { loopLag: (seconds) => lag.observe(seconds) };
}

function uploadMetrics({ counter }: Definer): Pick<Metrics, 'upload' | 'received' | 'extracted'> {
  const uploads = counter('waybill_uploads_total', 'Answered uploads.', ['pipeline', 'result']);
  const received = counter('waybill_upload_received_bytes_total', 'Bytes of archives that were read.', [
    'pipeline',
  ]);
  const extracted = counter(
    'waybill_upload_extracted_bytes_total',
    'Bytes of the files that staged bundles list.',
    ['pipeline'],
  );
  return {
    upload: ({ pipelineId, result }) => uploads.inc({ pipeline: pipelineId ?? 'none', result }),
    received: (pipeline, bytes) => received.inc({ pipeline }, bytes),
    extracted: (pipeline, bytes) => extracted.inc({ pipeline }, bytes),
  };
}

function runMetrics(define: Definer, pipelineIds: readonly string[]): RunObserver {
  const { counter, histogram } = define;
  const runs = counter('waybill_runs_total', 'Runs that ended after their turn had come.', [
    'pipeline',
    'status',
  ]);
  const runSeconds = histogram(
    'waybill_run_duration_seconds',
    'How long runs took.',
    ['pipeline'],
    runBuckets,
  );
  const waitSeconds = histogram(
    'waybill_run_queue_seconds',
    'How long runs waited for their turn.',
    ['pipeline'],
    waitBuckets,
  );
  const recordPublications = publicationMetrics(define);
  for (const pipeline of pipelineIds)
    for (const status of ['succeeded', 'failed']) runs.inc({ pipeline, status }, 0);
  return {
    started: ({ pipelineId, waitedSeconds }) => waitSeconds.observe({ pipeline: pipelineId }, waitedSeconds),
    finished: ({ pipelineId, seconds, succeeded, result }) => {
      runs.inc({ pipeline: pipelineId, status: succeeded ? 'succeeded' : 'failed' });
      runSeconds.observe({ pipeline: pipelineId }, seconds);
      if (result !== null) recordPublications(result.run);
    },
  };
}

function publicationMetrics({ counter }: Definer): (run: RunResult) => void {
  const labels = ['pipeline', 'destination', 'action'];
  const publications = counter(
    'waybill_publications_total',
    'Bundles at destinations, by what was done.',
    labels,
  );
  const written = counter('waybill_outputs_written_total', 'Outputs that were written.', labels);
  const kept = counter(
    'waybill_outputs_kept_total',
    'Published outputs whose bytes stayed as they were.',
    labels,
  );
  const removed = counter('waybill_outputs_removed_total', 'Outputs that were removed.', labels);
  const bytes = counter('waybill_published_bytes_total', 'Bytes of outputs that were written.', [
    'pipeline',
    'destination',
  ]);
  const keptBytes = counter('waybill_kept_bytes_total', 'Bytes of published outputs that stayed.', [
    'pipeline',
    'destination',
  ]);
  return ({ pipelines }) => {
    for (const { pipelineId, destinations } of pipelines) {
      for (const { destinationId, actions, error } of destinations) {
        const place = { pipeline: pipelineId, destination: destinationId };
        if (error !== null) publications.inc({ ...place, action: 'error' });
        for (const result of actions) {
          const { action } = result;
          publications.inc({ ...place, action });
          written.inc({ ...place, action }, result.outputsWritten);
          kept.inc({ ...place, action }, result.outputsKept);
          removed.inc({ ...place, action }, result.outputsRemoved);
          bytes.inc(place, result.bytesWritten);
          keptBytes.inc(place, result.bytesKept);
        }
      }
    }
  };
}

function deliveryMetrics({ counter }: Definer): Pick<Metrics, 'recordDelivery'> {
  const deliveries = counter('waybill_event_deliveries_total', 'Events, after the last try.', [
    'notifier',
    'result',
  ]);
  return {
    recordDelivery: ({ notifierId, delivered }) =>
      deliveries.inc({ notifier: notifierId, result: delivered ? 'delivered' : 'failed' }),
  };
}

function observeDaemon(registry: Registry, { queue, threads, connections, weather }: ObservedDaemon): void {
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
