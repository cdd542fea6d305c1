import type { ScheduleObserver } from '../../workers/schedule/schedule-observer.ts';
import { observeDaemon, type ObservedDaemon } from './daemon-gauges.ts';
import type { Definer } from './definer.ts';
import { processMetrics, type MetricsOptions, type ProcessMetrics } from './process-metrics.ts';
import { scheduleMetrics } from './schedule-metrics.ts';
import { weatherMetrics, type WeatherMetrics } from './weather-metrics.ts';

/**
 * What the daemon measures. Labels take their values from the configuration, the routes or a closed list:
 * never a path, a run id or a client.
 */
export interface Metrics extends WeatherMetrics, ProcessMetrics {
  /** Records an answered request, or one whose client disconnected first (`status` null). */
  request(done: AnsweredRequest): void;
  /** Records an answered upload: `accepted`, `replayed`, `planned` (a dry run), or the error code. */
  upload(done: { pipelineId: string | null; result: string }): void;
  /** Adds bytes read from an archive. */
  received(pipelineId: string, bytes: number): void;
  /** Adds the bytes of a staged bundle's files. */
  extracted(pipelineId: string, bytes: number): void;
  /** Records what starts runs by itself. */
  schedules: ScheduleObserver;
  /** Adds gauges that look the daemon up whenever the metrics are read. Called once. */
  observe(daemon: ObservedDaemon): void;
}

export interface AnsweredRequest {
  method: string;
  /** With parameter names; null if no route matched. */
  route: string | null;
  status: number | null;
  seconds: number;
  /** Seconds from the accept of the connection, of its first request. */
  sinceAccept?: number;
}

// All other methods that clients may send share one series.
const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'OPTIONS']);

// A request without a body takes milliseconds, a large upload many minutes.
const requestBuckets = [0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800];

/** The metrics of one daemon, in a registry of their own. `docs/metrics.md` lists them. */
export function createMetrics(options: MetricsOptions): Metrics {
  const { registry, define, metrics } = processMetrics(options);
  return {
    ...metrics,
    ...httpMetrics(define),
    ...uploadMetrics(define),
    ...weatherMetrics(define),
    schedules: scheduleMetrics(define),
    observe: (daemon) => observeDaemon(registry, daemon),
  };
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
  const sinceAcceptSeconds = histogram(
    'waybill_http_since_accept_seconds',
    'From the accept of a connection to the end of its first answer.',
    ['method', 'route'],
    requestBuckets,
  );
  return {
    request: ({ method, route, status, seconds, sinceAccept }) => {
      const labels = { method: knownMethods.has(method) ? method : 'other', route: route ?? 'none' };
      requests.inc({ ...labels, status: status ?? 'none' });
      requestSeconds.observe(labels, seconds);
      if (sinceAccept !== undefined) sinceAcceptSeconds.observe(labels, sinceAccept);
    },
  };
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
