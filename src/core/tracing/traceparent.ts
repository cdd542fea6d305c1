/** Identifies a span within a trace, as in W3C Trace Context. */
export interface SpanContext {
  /** 32 lower-case hexadecimal digits. */
  traceId: string;
  /** 16 lower-case hexadecimal digits. */
  spanId: string;
  /** Whether the trace is recorded. The process that starts the trace decides. */
  isSampled: boolean;
}

const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const isZero = /^0+$/;

/**
 * Parses a `traceparent`; null if it is missing or malformed, which W3C treats as no parent. In versions
 * later than 00, the fields known from version 00 are read. Pure.
 */
export function parseTraceparent(text: string | undefined): SpanContext | null {
  const [, version, traceId = '', spanId = '', flags = '', more] = form.exec(text ?? '') ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (isZero.test(traceId) || isZero.test(spanId)) return null;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export function formatTraceparent({ traceId, spanId, isSampled }: SpanContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;
}

/** The log field that links a line to its trace; empty if there is no trace. Pure. */
export function traceFields({ traceparent }: { traceparent?: string }): { trace_id?: string } {
  const context = traceparent === undefined ? null : parseTraceparent(traceparent);
  return context === null ? {} : { trace_id: context.traceId };
}
