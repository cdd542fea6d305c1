import { randomBytes } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import { formatTraceparent, parseTraceparent, type SpanContext, type TraceContext } from './trace-context.ts';

/*
 * Creates the spans of a trace. A span refers to its parent by a `TraceContext`, which is passed as plain
 * text in jobs, Redis records, messages to threads and webhooks. This file does not depend on OpenTelemetry,
 * which is loaded only by the exporter.
 */

export type SpanKind = 'server' | 'internal' | 'consumer' | 'client';
export type SpanAttributes = Record<string, string | number | boolean>;

export interface SpanOptions {
  /** The parent span. An empty or malformed context starts a new trace. */
  parent?: TraceContext;
  kind: SpanKind;
  attributes?: SpanAttributes;
  /** How long ago the span started, in milliseconds. Default: 0. */
  agoMs?: number;
}

export interface Span {
  /** The parent context for child spans. Empty if tracing is off. */
  readonly trace: TraceContext;
  set(attributes: SpanAttributes): void;
  /**
   * Marks the span as failed. Takes a code rather than a message, because secrets are only removed from
   * messages in the log.
   */
  fail(code: string): void;
  /** Reports the span. A span that never ends is never reported. Further calls do nothing. */
  end(): void;
}

export interface Tracer {
  readonly isOn: boolean;
  start(name: string, options: SpanOptions): Span;
}

/** A span that has ended. Plain data, so that it can be sent between threads. */
export interface FinishedSpan extends SpanContext {
  name: string;
  kind: SpanKind;
  parent: SpanContext | null;
  /** In milliseconds since 1970. */
  startedAt: number;
  endedAt: number;
  attributes: SpanAttributes;
  /** The error code; null if the span succeeded. */
  error: string | null;
  /** The `tracestate` that was received with the trace, unchanged. */
  tracestate?: string;
}

const untraced: Span = {
  trace: {},
  set: () => undefined,
  fail: () => undefined,
  end: () => undefined,
};

/** Records nothing, but passes on the context of a trace that was started by another process. */
export const noTracer: Tracer = {
  isOn: false,
  start: (_name, { parent }) =>
    parent?.traceparent === undefined ? untraced : { ...untraced, trace: parent },
};

export interface TracerOptions {
  clock: Pick<Clock, 'now' | 'monotonic'>;
  /** Called with each span that ends. Must not throw. */
  report: (span: FinishedSpan) => void;
  /**
   * Decides whether to record a trace that starts in this process. Traces started elsewhere already carry the
   * decision.
   */
  samples: (traceId: string) => boolean;
}

/**
 * Returns a tracer that records spans. Spans in an unsampled trace are not reported, but the trace's id is
 * still passed on.
 */
export function recordingTracer({ clock, report, samples }: TracerOptions): Tracer {
  return {
    isOn: true,
    start(name, { parent: given, kind, attributes = {}, agoMs = 0 }) {
      const parent = parseTraceparent(given?.traceparent);
      const context = contextBelow(parent, samples);
      const tracestate = parent === null ? undefined : given?.tracestate;
      const passedOn = tracestate === undefined ? {} : { tracestate };
      const startedAt = clock.now().getTime() - agoMs;
      const startedMonotonic = clock.monotonic() - agoMs;
      const allAttributes: SpanAttributes = { ...attributes };
      let error: string | null = null;
      let isOpen = true;
      return {
        trace: { traceparent: formatTraceparent(context), ...passedOn },
        set: (more) => void Object.assign(allAttributes, more),
        fail: (code) => void (error = code),
        end() {
          if (!isOpen) return;
          isOpen = false;
          // The wall clock may be adjusted during the span, so the duration comes from the monotonic clock.
          const endedAt = startedAt + (clock.monotonic() - startedMonotonic);
          if (context.isSampled)
            report({
              ...context,
              ...passedOn,
              name,
              kind,
              parent,
              startedAt,
              endedAt,
              attributes: allAttributes,
              error,
            });
        },
      };
    },
  };
}

function contextBelow(parent: SpanContext | null, samples: TracerOptions['samples']): SpanContext {
  const spanId = randomId(8);
  if (parent !== null) return { ...parent, spanId };
  const traceId = randomId(16);
  return { traceId, spanId, isSampled: samples(traceId) };
}

/** Returns a random id. It is never all zeros, which W3C Trace Context does not allow. */
function randomId(bytes: number): string {
  const id = randomBytes(bytes);
  return id.every((byte) => byte === 0) ? randomId(bytes) : id.toString('hex');
}
