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
 * The daemon's metrics. Labels take their values from the configuration, the routes or a fixed list. They
 * never contain a path, a run id or a client.
 */
export interface Metrics extends WeatherMetrics, ProcessMetrics {
  /** Records an answered request, or one whose client disconnected first (`status` null). */
  request(done: AnsweredRequest): void;
  /** Records an answered upload as `accepted`, `replayed`, `planned` (a dry run), or the error code. */
  upload(done: { pipelineId: string | null; result: string }): void;
  /** Adds bytes read from an archive. */
  received(pipelineId: string, bytes: number): void;
  /** Adds the bytes of a staged bundle's files. */
  extracted(pipelineId: string, bytes: number): void;
  /** Records schedule ticks and source changes. */
  schedules: ScheduleObserver;
  /** Adds gauges that query the daemon on each scrape. Call this once. */
  observe(daemon: ObservedDaemon): void;
}

interface AnsweredRequest {
  method: string;
  /** The route with its parameter names; null if none matched. */
  route: string | null;
  status: number | null;
  seconds: number;
  /** The seconds since the connection was accepted. Set only for its first request. */
  sinceAccept?: number;
}

// All other methods share one series, because clients may send any method.
const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'OPTIONS']);

// A request without a body takes milliseconds; a large upload takes many minutes.
const requestBuckets = [0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800];

/** Creates a daemon's metrics in their own registry. `docs/metrics.md` lists them. */
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

/** Creates the metrics for schedules and watched sources. */
function scheduleMetrics({ counter, gauge }: Definer): ScheduleObserver {
  const triggers = counter(
    'waybill_triggers_total',
    'Ticks of schedules and changes of watched sources, by what became of them.',
    ['pipeline', 'kind', 'outcome'],
  );
  const missed = counter('waybill_schedule_missed_total', 'Ticks of schedules that started no run.', [
    'pipeline',
    'reason',
  ]);
  const ignored = counter(
    'waybill_schedule_future_ticks_total',
    'Decided ticks that were ignored because they are in the future: the clock was ahead when they were decided.',
    ['pipeline'],
  );
  const polled = gauge(
    'waybill_watch_polled',
    '1 if a source that is to be watched cannot be and is polled, else 0.',
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

/** Records every request and every upload when its response closes. */
export function recordRequests(metrics: Pick<Metrics, 'request' | 'upload'>, clock: Clock): RequestHandler {
  return (req, res, next) => {
    recordRequest(metrics, clock, req, res);
    next();
  };
}

/** Records a request, and its outcome if it is an upload, when its response closes. */
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
    const sinceAccept = acceptedAt === undefined ? {} : { sinceAccept: (now - acceptedAt) / 1000 };
    metrics.request({ method: req.method ?? '', route, status, seconds, ...sinceAccept });
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
