import { randomBytes } from 'node:crypto';
import type { Clock } from '../clock.ts';
import type { TraceContext } from './trace-context.ts';
import { formatTraceparent, parseTraceparent, type SpanContext } from './traceparent.ts';

/*
 * The spans of a trace. A span knows its parent by a `TraceContext`, which is passed on as plain text: in a
 * job, over Redis, to a thread, to a webhook. Nothing here knows OpenTelemetry, which is loaded where spans
 * are exported, and only there.
 */

export type SpanKind = 'server' | 'internal' | 'consumer' | 'client';
export type SpanAttributes = Record<string, string | number | boolean>;

export interface SpanOptions {
  /** The span that this one belongs to; an empty or malformed one is none, which begins a new trace. */
  parent?: TraceContext;
  kind: SpanKind;
  attributes?: SpanAttributes;
  /** If it has begun before now: how many milliseconds ago. */
  agoMs?: number;
}

export interface Span {
  /** The parent of what belongs to this span; empty where nothing is traced. */
  readonly trace: TraceContext;
  set(attributes: SpanAttributes): void;
  /** It failed with this code. Messages are left to the log, which keeps secrets out of them. */
  fail(code: string): void;
  /** Reports the span; one that never ends is never reported. Any further call does nothing. */
  end(): void;
}

export interface Tracer {
  readonly isOn: boolean;
  start(name: string, options: SpanOptions): Span;
}

/** A span that has ended. Plain data: it crosses threads. */
export interface FinishedSpan extends SpanContext {
  name: string;
  kind: SpanKind;
  parent: SpanContext | null;
  /** In milliseconds since 1970. */
  startedAt: number;
  endedAt: number;
  attributes: SpanAttributes;
  /** Null unless it failed. */
  error: string | null;
  /** As it came with the trace; absent if nothing did. */
  tracestate?: string;
}

const untraced: Span = {
  trace: {},
  set: () => undefined,
  fail: () => undefined,
  end: () => undefined,
};

/** Records nothing. What another process has begun is passed on as it came. */
export const noTracer: Tracer = {
  isOn: false,
  start: (_name, { parent }) =>
    parent?.traceparent === undefined ? untraced : { ...untraced, trace: parent },
};

export interface TracerOptions {
  clock: Pick<Clock, 'now' | 'monotonic'>;
  /** Gets each span that has ended; must not throw. */
  report: (span: FinishedSpan) => void;
  /** Whether a trace that begins here is recorded. Of others, whoever has begun them has decided. */
  samples: (traceId: string) => boolean;
}

/** Records spans. Of a trace that is not sampled none is reported, and its id is passed on all the same. */
export function recordingTracer({ clock, report, samples }: TracerOptions): Tracer {
  return {
    isOn: true,
    start(name, { parent: given, kind, attributes = {}, agoMs = 0 }) {
      const parent = parseTraceparent(given?.traceparent);
      const context = contextBelow(parent, samples);
      const tracestate = parent === null ? undefined : given?.tracestate;
      const passed = tracestate === undefined ? {} : { tracestate };
      const startedAt = clock.now().getTime() - agoMs;
      const since = clock.monotonic() - agoMs;
      const held: SpanAttributes = { ...attributes };
      let error: string | null = null;
      let isOpen = true;
      return {
        trace: { traceparent: formatTraceparent(context), ...passed },
        set: (more) => void Object.assign(held, more),
        fail: (code) => void (error = code),
        end() {
          if (!isOpen) return;
          isOpen = false;
          // The clock of the wall may be set while the span lasts.
          const endedAt = startedAt + (clock.monotonic() - since);
          if (context.isSampled)
            report({
              ...{ ...context, ...passed, name, kind, parent },
              ...{ startedAt, endedAt, attributes: held, error },
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

/** Never all zeros, which W3C does not allow. */
function randomId(bytes: number): string {
  const id = randomBytes(bytes);
  return id.every((byte) => byte === 0) ? randomId(bytes) : id.toString('hex');
}
