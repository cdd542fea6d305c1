import {
  createTraceState,
  SpanKind as OtelKind,
  SpanStatusCode,
  TraceFlags,
  type HrTime,
  type SpanContext as OtelContext,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  detectResources,
  envDetector,
  resourceFromAttributes,
  type Resource,
} from '@opentelemetry/resources';
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter } from '@opentelemetry/sdk-trace';
import type { BatchLimits } from './batch-limits.ts';
import type { FinishedSpan, SpanKind } from './span.ts';
import type { SpanContext } from './traceparent.ts';

export interface SpanExportOptions {
  /** Base URL; null: as `OTEL_EXPORTER_OTLP_ENDPOINT` and its like say, else `http://localhost:4318`. */
  endpoint: string | null;
  headers: Record<string, string>;
  /** Null: as `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say, else `waybill`. */
  serviceName: string | null;
  version: string;
  limits: BatchLimits;
  /** How long one export may take with all its tries, in milliseconds; by default as the SDK says. */
  sendAtMostMs?: number | undefined;
  /** Called when sending begins to fail, with the reason, and with null when it works again. */
  onHealth: (failure: string | null) => void;
}

/** Sends spans to a collector, many at once, behind the back of whoever adds them. */
export interface SpanExport {
  /** Returns at once; drops the span if too many wait. */
  add(span: FinishedSpan): void;
  /** Sends what waits. Never rejects. */
  close(): Promise<void>;
}

/**
 * Spans over OTLP/HTTP, in JSON. Compression, certificates and time-outs are those of the SDK and of its
 * variables. This file is imported only when spans are to be exported.
 */
export function openSpanExport(options: SpanExportOptions): SpanExport {
  const { endpoint, headers, onHealth, sendAtMostMs } = options;
  const exporter = new OTLPTraceExporter({
    headers,
    ...(sendAtMostMs === undefined ? {} : { timeoutMillis: sendAtMostMs }),
    ...(endpoint === null ? {} : { url: `${endpoint}/v1/traces` }),
  });
  const processor = new BatchSpanProcessor({
    ...options.limits,
    exporter: reportingHealth(exporter, onHealth),
  });
  const resource = resourceOf(options);
  const scope = { name: 'waybill', version: options.version };
  return {
    add: (span) => processor.onEnd(readable(span, resource, scope)),
    close: () => processor.shutdown().catch(() => undefined),
  };
}

function resourceOf({ serviceName, version }: SpanExportOptions): Resource {
  const own = { 'service.name': 'waybill', 'service.version': version };
  const resource = resourceFromAttributes(own).merge(detectResources({ detectors: [envDetector] }));
  return serviceName === null
    ? resource
    : resource.merge(resourceFromAttributes({ 'service.name': serviceName }));
}

/** The processor drops what its exporter could not send, and tells nobody. */
function reportingHealth(exporter: SpanExporter, onHealth: SpanExportOptions['onHealth']): SpanExporter {
  let isFailing = false;
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const failed = result.error !== undefined || (result.code as number) !== 0;
        if (failed !== isFailing) onHealth(failed ? reasonOf(result.error) : null);
        isFailing = failed;
        done(result);
      }),
    shutdown: () => exporter.shutdown(),
  };
}

/** A message may hold what the collector answered, and a URL with a password. */
function reasonOf(error: Error | undefined): string {
  const code = error !== undefined && 'code' in error ? error.code : undefined;
  if (typeof code === 'number') return `the collector answered ${code}`;
  return typeof code === 'string'
    ? `the collector cannot be reached (${code})`
    : 'the collector does not answer';
}

const kinds: Record<SpanKind, OtelKind> = {
  server: OtelKind.SERVER,
  internal: OtelKind.INTERNAL,
  consumer: OtelKind.CONSUMER,
  client: OtelKind.CLIENT,
};

function readable(
  span: FinishedSpan,
  resource: Resource,
  instrumentationScope: ReadableSpan['instrumentationScope'],
): ReadableSpan {
  const { name, kind, parent, startedAt, endedAt, attributes, error } = span;
  const { tracestate } = span;
  const state = tracestate === undefined ? {} : { traceState: createTraceState(tracestate) };
  const context = { ...contextOf(span), ...state };
  return {
    name,
    kind: kinds[kind],
    spanContext: () => context,
    ...(parent === null
      ? {}
      : { parentSpanContext: { ...contextOf(parent), isRemote: kind === 'server' || kind === 'consumer' } }),
    startTime: hrTime(startedAt),
    endTime: hrTime(endedAt),
    duration: hrTime(endedAt - startedAt),
    status: { code: error === null ? SpanStatusCode.UNSET : SpanStatusCode.ERROR },
    attributes: error === null ? attributes : { ...attributes, 'error.type': error },
    links: [],
    events: [],
    ended: true,
    resource,
    instrumentationScope,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

function contextOf({ traceId, spanId, isSampled }: SpanContext): OtelContext {
  return { traceId, spanId, traceFlags: isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE };
}

function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1_000_000)];
}
