import { Registry, collectDefaultMetrics } from 'prom-client';
import type { RunObserver } from '../../workers/run-observer.ts';
import { observeDaemon, type ObservedDaemon } from './daemon-gauges.ts';
import { definer, type Definer } from './definer.ts';
import { deliveryMetrics, runMetrics, type DeliveryMetrics } from './run-metrics.ts';
import { weatherMetrics, type WeatherMetrics } from './weather-metrics.ts';

/**
 * What the daemon measures. Labels take their values from the configuration, the routes or a closed list:
 * never a path, a run id or a client.
 */
export interface Metrics extends WeatherMetrics, DeliveryMetrics {
  /** Records an answered request, or one whose client disconnected first (`status` null). */
  request(done: AnsweredRequest): void;
  /** Records an answered upload: `accepted`, `replayed`, `planned` (a dry run), or the error code. */
  upload(done: { pipelineId: string | null; result: string }): void;
  /** Adds bytes read from an archive. */
  received(pipelineId: string, bytes: number): void;
  /** Adds the bytes of a staged bundle's files. */
  extracted(pipelineId: string, bytes: number): void;
  /** Records how late the event loop was. */
  loopLag(seconds: number): void;
  runs: RunObserver;
  /** Adds gauges that look the daemon up whenever the metrics are read. Called once. */
  observe(daemon: ObservedDaemon): void;
  /** All metrics in Prometheus's text format, and its media type. */
  contentType: string;
  text(): Promise<string>;
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
