import { randomBytes } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import { formatTraceparent, parseTraceparent, type SpanContext, type TraceContext } from './trace-context.ts';

/*
 * Creates the spans of a trace. A `TraceContext` identifies the parent of a span. It is a pair of strings, so
 * it can be part of jobs, records in Redis, messages to threads, and webhooks. OpenTelemetry is not used
 * here; only the exporter loads it.
 */

export type SpanKind = 'server' | 'internal' | 'consumer' | 'client';
export type SpanAttributes = Record<string, string | number | boolean>;

interface SpanOptions {
  /** The parent of the span. If it is empty or malformed, a new trace starts here. */
  parent?: TraceContext;
  kind: SpanKind;
  attributes?: SpanAttributes;
  /** How long ago the span really started, in milliseconds. Default: 0. */
  agoMs?: number;
}

export interface Span {
  /** Pass this as `parent` to create a child span. Empty if tracing is off. */
  readonly trace: TraceContext;
  set(attributes: SpanAttributes): void;
  /**
   * Marks the span as failed. This takes a code, because a message could contain secrets, which are removed
   * only in the log.
   */
  fail(code: string): void;
  /** Ends the span and reports it. A span that never ends is not reported. Ending it twice does nothing. */
  end(): void;
}

export interface Tracer {
  readonly isOn: boolean;
  start(name: string, options: SpanOptions): Span;
}

/** A span that has ended. Plain data, so it can be sent to another thread. */
export interface FinishedSpan extends SpanContext {
  name: string;
  kind: SpanKind;
  parent: SpanContext | null;
  /** In milliseconds since 1970. */
  startedAt: number;
  endedAt: number;
  attributes: SpanAttributes;
  /** The code of the error; null if there was none. */
  error: string | null;
  /** The `tracestate` that came with the trace, unchanged. */
  tracestate?: string;
}

const untraced: Span = {
  trace: {},
  set: () => undefined,
  fail: () => undefined,
  end: () => undefined,
};

/** Records nothing. If another process has started a trace, its context is still passed on. */
export const noTracer: Tracer = {
  isOn: false,
  start: (_name, { parent }) =>
    parent?.traceparent === undefined ? untraced : { ...untraced, trace: parent },
};

interface TracerOptions {
  clock: Pick<Clock, 'now' | 'monotonic'>;
  /** Called with each span when it ends. Must not throw. */
  report: (span: FinishedSpan) => void;
  /**
   * Decides whether to record a trace that starts in this process. All other traces were decided on by the
   * process that started them.
   */
  samples: (traceId: string) => boolean;
}

/**
 * Returns a tracer that records spans. If a trace is not sampled, its spans are not reported, but its id is
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
          // The wall clock may be set to a different time in the meantime, so measure the duration with the
          // monotonic clock.
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

/** Returns a random id. It is never all zeros, because W3C Trace Context does not allow that. */
function randomId(bytes: number): string {
  const id = randomBytes(bytes);
  return id.every((byte) => byte === 0) ? randomId(bytes) : id.toString('hex');
}
