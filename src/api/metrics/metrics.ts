import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import type { Clock } from '../../core/lib/clock.ts';
import type { ScheduleObserver } from '../../workers/schedule/schedule-observer.ts';
import { requestContext } from '../http/request/request-context.ts';
import type { Definer } from './definer.ts';
import { observeDaemon, type ObservedDaemon } from './gauges.ts';
import { type MetricsOptions, type ProcessMetrics, processMetrics } from './process-metrics.ts';
import { type WeatherMetrics, weatherMetrics } from './weather-metrics.ts';

/**
 * The daemon's metrics. Label values come from the configuration, the routes or a fixed list, never from
 * paths, run ids or clients.
 */
export interface Metrics extends WeatherMetrics, ProcessMetrics {
  /** Records a request. `status` is null if the client disconnected before the response. */
  request(done: AnsweredRequest): void;
  /** Records an upload. `result` is `accepted`, `replayed`, `planned` for a dry run, or an error code. */
  upload(done: { pipelineId: string | null; result: string }): void;
  /** Adds bytes that were read from an archive. */
  received(pipelineId: string, bytes: number): void;
  /** Adds the size of the files in a staged bundle. */
  extracted(pipelineId: string, bytes: number): void;
  schedules: ScheduleObserver;
  /** Adds gauges that read their values from the daemon on every scrape. Call this once. */
  observe(daemon: ObservedDaemon): void;
}

interface AnsweredRequest {
  method: string;
  /** The route's path, with parameter names; null if no route matched. */
  route: string | null;
  status: number | null;
  seconds: number;
  /** Seconds since the connection was accepted. Only set for the first request on it. */
  sinceAccept?: number;
}

// Clients can send any method, so all others are counted together.
const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'OPTIONS']);

// In seconds. Requests without a body take a few milliseconds, and large uploads many minutes.
const requestBuckets = [0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800];

/** Creates the daemon's metrics in a separate registry. They are documented in `docs/metrics.md`. */
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
    'Time from the head of a request to the end of its response.',
    ['method', 'route'],
    requestBuckets,
  );
  const sinceAcceptSeconds = histogram(
    'waybill_http_since_accept_seconds',
    'Time from the start of a connection to the end of its first response.',
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

function scheduleMetrics({ counter, gauge }: Definer): ScheduleObserver {
  const triggers = counter(
    'waybill_triggers_total',
    'Schedule ticks and changes of watched sources, by result.',
    ['pipeline', 'kind', 'outcome'],
  );
  const missed = counter('waybill_schedule_missed_total', 'Schedule ticks that started no run.', [
    'pipeline',
    'reason',
  ]);
  const ignored = counter(
    'waybill_schedule_future_ticks_total',
    'Recorded ticks that were ignored because they are in the future: the clock was ahead.',
    ['pipeline'],
  );
  const polled = gauge(
    'waybill_watch_polled',
    '1 if a source cannot be watched and is polled instead, else 0.',
    ['pipeline'],
  );
  return {
    begun: ({ pipelineId: pipeline, kind }) => {
      for (const outcome of ['started', 'coalesced']) triggers.inc({ pipeline, kind, outcome }, 0);
      if (kind === 'schedule') ignored.inc({ pipeline }, 0);
      if (kind === 'schedule') for (const reason of ['down', 'paused']) missed.inc({ pipeline, reason }, 0);
    },
    decided: ({ pipelineId, kind, outcome }) => triggers.inc({ pipeline: pipelineId, kind, outcome }),
    missed: ({ pipelineId, reason, count }) => missed.inc({ pipeline: pipelineId, reason }, count),
    ignored: (pipeline) => ignored.inc({ pipeline }),
    polled: (pipeline, isPolled) => polled.set({ pipeline }, isPolled ? 1 : 0),
  };
}

const uploadRoute = /^\/v1\/pipelines\/\{pipeline_id\}\/upload(\/|$)/;

/** Records each request when its response is closed, and uploads in more detail. */
export function recordRequests(metrics: Pick<Metrics, 'request' | 'upload'>, clock: Clock): RequestHandler {
  return (req, res, next) => {
    recordRequest(metrics, clock, req, res);
    next();
  };
}

/** Records a request when its response is closed. If it is an upload, also records its result. */
export function recordRequest(
  metrics: Pick<Metrics, 'request' | 'upload'>,
  clock: Clock,
  req: IncomingMessage,
  res: ServerResponse,
): void {
  const started = clock.monotonic();
  res.on('close', () => {
    const { route = null, fields, acceptedAt, finishesUpload = false } = requestContext(req);
    const status = res.headersSent ? res.statusCode : null;
    const now = clock.monotonic();
    const seconds = (now - started) / 1000;
    const sinceAccept = acceptedAt === undefined ? undefined : (now - acceptedAt) / 1000;
    metrics.request({ method: req.method ?? '', route, status, seconds, sinceAccept });
    if (route === null || !(uploadRoute.test(route) || finishesUpload) || status === 405) return;
    const taken =
      status === 200 ? 'planned' : res.hasHeader('Idempotency-Replayed') ? 'replayed' : 'accepted';
    const result = fields['code'] ?? taken;
    const pipelineId = fields['pipeline_id'];
    metrics.upload({
      pipelineId: typeof pipelineId === 'string' ? pipelineId : null,
      result: String(result),
    });
  });
}
