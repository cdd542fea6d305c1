import type { Clock } from '../../core/lib/clock.ts';
import { recordingTracer, type FinishedSpan, type Tracer } from '../../core/tracing/span.ts';

/*
 * Spans of worker threads. A thread records them and sends each to the daemon's own thread, which alone
 * exports: one connection to the collector, and no copy of OpenTelemetry in each thread.
 */

/** The thread's end. A run is the parent of whatever a thread does, so it never decides what is sampled. */
export function relayedTracer(clock: Clock, send: (span: FinishedSpan) => void): Tracer {
  return recordingTracer({ clock, report: send, samples: () => false });
}

/** Whether what a thread sent is a span, as far as a defect in the thread could break its export. */
export function isFinishedSpan(value: unknown): value is FinishedSpan {
  if (typeof value !== 'object' || value === null) return false;
  const { name, traceId, spanId, startedAt, endedAt, attributes } = value as Partial<FinishedSpan>;
  return (
    [name, traceId, spanId].every((text) => typeof text === 'string') &&
    [startedAt, endedAt].every((time) => typeof time === 'number') &&
    typeof attributes === 'object'
  );
}
