import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';
import type { RunResult } from '../../core/publish/result.ts';
import type { ThreadStats } from '../../workers/threads/pool.ts';
import type { JobQueue } from '../../workers/queue.ts';
import type { RunObserver } from '../../workers/run-observer.ts';

/**
 * What the daemon counts. Every label is bounded by the configuration, the routes or a closed list: never a
 * path, a run id or a client.
 */
export interface Metrics {
  /** One answered request, or one that the client left (`status` null). */
  request(done: AnsweredRequest): void;
  /** One upload that was answered: `accepted`, `replayed`, or the code of the refusal. */
  upload(done: { pipelineId: string | null; result: string }): void;
  /** Bytes of an archive that were read. */
  received(pipelineId: string, bytes: number): void;
  /** Bytes of the files of a staged bundle. */
  extracted(pipelineId: string, bytes: number): void;
  runs: RunObserver;
  /** One event at one notifier, after the last try. */
  recordDelivery(delivery: { notifierId: string; delivered: boolean }): void;
  /** Everything in Prometheus's text format, and its media type. */
  contentType: string;
  text(): Promise<string>;
}

export interface AnsweredRequest {
  method: string;
  /** With parameters' names; null where no route answers. */
  route: string | null;
  status: number | null;
  seconds: number;
}

export interface MetricsOptions {
  version: string;
  nodeVersion: string;
  /** Their series begin at zero, so that the first run already is an increase. */
  pipelineIds: readonly string[];
  depth: () => ReturnType<JobQueue['depth']>;
  threads: () => ThreadStats;
}

// Whatever else a client may send is one series.
const knownMethods = new Set(['GET', 'HEAD', 'POST']);

// A request without a body takes milliseconds, a large upload many minutes.
const requestBuckets = [0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800];
const runBuckets = [0.05, 0.2, 1, 5, 20, 60, 300, 1200, 3600];
const waitBuckets = [0.01, 0.1, 1, 5, 20, 60, 300, 1200, 3600];

/** The metrics of one daemon in a registry of their own. `docs/metrics.md` lists them. */
export function createMetrics(options: MetricsOptions): Metrics {
  const register = new Registry();
  const registers = [register];
  collectDefaultMetrics({ register });
  watchDaemon(registers, options);
  const counter = (name: string, help: string, labelNames: string[]): Counter =>
    new Counter({ name, help, labelNames, registers });
  const histogram = (name: string, help: string, labelNames: string[], buckets: number[]): Histogram =>
    new Histogram({ name, help, labelNames, buckets, registers });

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
  const uploads = counter('waybill_uploads_total', 'Answered uploads.', ['pipeline', 'result']);
  const received = counter('waybill_upload_received_bytes_total', 'Bytes of archives that were read.', [
    'pipeline',
  ]);
  const extracted = counter(
    'waybill_upload_extracted_bytes_total',
    'Bytes of the files that staged bundles list.',
    ['pipeline'],
  );
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
  const ofDestination = ['pipeline', 'destination', 'action'];
  const publication: PublicationCounters = {
    publications: counter(
      'waybill_publications_total',
      'Bundles at destinations, by what was done.',
      ofDestination,
    ),
    written: counter('waybill_outputs_written_total', 'Outputs that were written.', ofDestination),
    removed: counter('waybill_outputs_removed_total', 'Outputs that were removed.', ofDestination),
    bytes: counter('waybill_published_bytes_total', 'Bytes of outputs that were written.', [
      'pipeline',
      'destination',
    ]),
  };
  const deliveries = counter('waybill_event_deliveries_total', 'Events, after the last try.', [
    'notifier',
    'result',
  ]);

  for (const pipeline of options.pipelineIds)
    for (const status of ['succeeded', 'failed']) runs.inc({ pipeline, status }, 0);

  return {
    request: ({ method, route, status, seconds }) => {
      const labels = { method: knownMethods.has(method) ? method : 'other', route: route ?? 'none' };
      requests.inc({ ...labels, status: status ?? 'none' });
      requestSeconds.observe(labels, seconds);
    },
    upload: ({ pipelineId, result }) => uploads.inc({ pipeline: pipelineId ?? 'none', result }),
    received: (pipeline, bytes) => received.inc({ pipeline }, bytes),
    extracted: (pipeline, bytes) => extracted.inc({ pipeline }, bytes),
    runs: {
      started: ({ pipelineId, waitedSeconds }) =>
        waitSeconds.observe({ pipeline: pipelineId }, waitedSeconds),
      finished: ({ pipelineId, seconds, succeeded, result }) => {
        runs.inc({ pipeline: pipelineId, status: succeeded ? 'succeeded' : 'failed' });
        runSeconds.observe({ pipeline: pipelineId }, seconds);
        if (result !== null) countPublications(result.run, publication);
      },
    },
    recordDelivery: ({ notifierId, delivered }) =>
      deliveries.inc({ notifier: notifierId, result: delivered ? 'delivered' : 'failed' }),
    contentType: register.contentType,
    text: () => register.metrics(),
  };
}

interface PublicationCounters {
  publications: Counter;
  written: Counter;
  removed: Counter;
  bytes: Counter;
}

function countPublications({ pipelines }: RunResult, counters: PublicationCounters): void {
  for (const { pipelineId, destinations } of pipelines) {
    for (const { destinationId, actions, error } of destinations) {
      const place = { pipeline: pipelineId, destination: destinationId };
      if (error !== null) counters.publications.inc({ ...place, action: 'error' });
      for (const { action, outputsWritten, outputsRemoved, bytesWritten } of actions) {
        counters.publications.inc({ ...place, action });
        counters.written.inc({ ...place, action }, outputsWritten);
        counters.removed.inc({ ...place, action }, outputsRemoved);
        counters.bytes.inc(place, bytesWritten);
      }
    }
  }
}

/** What is not counted as it happens but looked up when it is asked for. */
function watchDaemon(registers: Registry[], { version, nodeVersion, depth, threads }: MetricsOptions): void {
  new Gauge({
    name: 'waybill_build_info',
    help: 'Always 1; the labels tell what runs.',
    labelNames: ['version', 'node_version'],
    registers,
  }).set({ version, node_version: nodeVersion }, 1);
  new Gauge({
    name: 'waybill_queue_depth',
    help: 'Uploads being received (reserved), runs that wait (queued) and runs that run (running).',
    labelNames: ['state'],
    registers,
    async collect() {
      this.reset();
      // A queue that is away has no depth to tell; everything else is told all the same.
      const states = await depth().catch(() => ({}));
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
