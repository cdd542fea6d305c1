/** What identifies one span of one trace, as W3C Trace Context has it. */
export interface SpanContext {
  /** 32 lower-case hexadecimal digits. */
  traceId: string;
  /** 16 of them. */
  spanId: string;
  /** Whether the spans of the trace are recorded; whoever begins the trace decides. */
  isSampled: boolean;
}

const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const isZero = /^0+$/;

/**
 * The span that a `traceparent` names; null if it is none, which W3C asks to take for no parent at all. Of a
 * version that is not known yet the part is read that it shares with this one. Pure.
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

/** The field of log lines by which they are found from a trace, and the trace from them. Pure. */
export function traceFields({ traceparent }: { traceparent?: string }): { trace_id?: string } {
  const context = traceparent === undefined ? null : parseTraceparent(traceparent);
  return context === null ? {} : { trace_id: context.traceId };
}
