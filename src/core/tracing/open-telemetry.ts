import {
  createTraceState,
  type HrTime,
  type SpanContext as OtelContext,
  SpanKind as OtelKind,
  SpanStatusCode,
  TraceFlags,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  detectResources,
  envDetector,
  type Resource,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter } from '@opentelemetry/sdk-trace';
import type { BatchLimits } from './environment.ts';
import type { FinishedSpan, SpanKind } from './span.ts';
import type { SpanContext } from './trace-context.ts';

/*
 * Exports spans with OTLP. It takes a while to load OpenTelemetry, so do not import this unless there are
 * spans to export.
 */

interface SpanExportOptions {
  /**
   * The base URL; null to use the `OTEL_EXPORTER_OTLP_…` variables. If those are not set either, it is
   * `http://localhost:4318`.
   */
  endpoint: string | null;
  headers: Record<string, string>;
  /**
   * null to use `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`. If those are not set either, it is
   * `waybill`.
   */
  serviceName: string | null;
  version: string;
  limits: BatchLimits;
  /** How long an export can take, including retries, in milliseconds. Defaults to the SDK's own limit. */
  exportTimeoutMs?: number | undefined;
  /** Called with the reason when exports start to fail, and with null when they work again. */
  onHealth: (failure: string | null) => void;
}

/**
 * How long connecting can take, in milliseconds. The exporter has a timeout, but that only starts after
 * connecting.
 */
const connectMs = 10_000;

/** Sends spans to a collector in the background, a batch at a time. */
export interface SpanExport {
  /** Adds the span to the queue and does not wait. If the queue is full, the span is dropped. */
  add(span: FinishedSpan): void;
  /** Sends everything in the queue. Never rejects. */
  close(): Promise<void>;
}

/**
 * Exports spans as OTLP over HTTP, in JSON. To configure compression, certificates and timeouts, use the
 * environment variables of the SDK.
 */
export function openSpanExport(options: SpanExportOptions): SpanExport {
  const { endpoint, headers, onHealth, exportTimeoutMs } = options;
  const exporter = new OTLPTraceExporter({
    headers,
    httpAgentOptions: { timeout: exportTimeoutMs ?? connectMs },
    ...(exportTimeoutMs === undefined ? {} : { timeoutMillis: exportTimeoutMs }),
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

/**
 * Wraps the exporter so that failures are reported. If spans cannot be sent, the SDK's processor just drops
 * them.
 */
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

/**
 * Describes an error. Its message is left out, because it could contain a response from the collector, or a
 * URL with a password.
 */
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
  const traceState = tracestate === undefined ? undefined : createTraceState(tracestate);
  const context = { ...contextOf(span), traceState };
  return {
    name,
    kind: kinds[kind],
    spanContext: () => context,
    parentSpanContext:
      parent === null
        ? undefined
        : { ...contextOf(parent), isRemote: kind === 'server' || kind === 'consumer' },
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
