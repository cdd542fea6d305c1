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
 * Parses a `traceparent`. Returns null if it is missing or malformed, which W3C treats as no parent. For
 * versions later than 00, only the fields of version 00 are read.
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

/** Returns the log field that links a line to its trace, or no field if there is no trace. */
export function traceFields({ traceparent }: { traceparent?: string }): { trace_id?: string } {
  const context = traceparent === undefined ? null : parseTraceparent(traceparent);
  return context === null ? {} : { trace_id: context.traceId };
}

/**
 * A position in a trace, as the two header values defined by W3C Trace Context. It is stored in jobs and sent
 * to other hosts and threads. Empty if there is no trace.
 */
export interface TraceContext {
  /** The parent span. */
  traceparent?: string;
  /** Data from other tracing systems. It is passed on, but never interpreted. */
  tracestate?: string;
}

/**
 * Returns the context received with a request or in the process's environment. As W3C requires, a malformed
 * `traceparent` is treated as if there were no context, and a malformed `tracestate` is dropped.
 */
export function receivedTrace(traceparent: string | undefined, tracestate: string | undefined): TraceContext {
  if (traceparent === undefined || parseTraceparent(traceparent) === null) return {};
  const state = tracestate === undefined ? '' : propagatedState(tracestate);
  return state === '' ? { traceparent } : { traceparent, tracestate: state };
}

/** Picks the trace context from a larger object, such as a job. */
export function traceOf({ traceparent, tracestate }: TraceContext): TraceContext {
  return {
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(tracestate === undefined ? {} : { tracestate }),
  };
}

// W3C Trace Context, 3.3.1: propagate at least 512 characters of the list, and drop long members first. The
// list is stored in every job and event, so it is shortened to that minimum.
const maxCharacters = 512;
const maxMembers = 32;
const maxShortMember = 128;

const key = /(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})/;
const value = /[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]/;
const member = new RegExp(`^${key.source}=${value.source}$`);

/** Validates the list, trims whitespace around its members and shortens it. Returns '' if it is malformed. */
function propagatedState(tracestate: string): string {
  const members = tracestate
    .split(',')
    .map((one) => one.replace(/^[ \t]+|[ \t]+$/g, ''))
    .filter((one) => one !== '');
  const keys = new Set(members.map((one) => one.slice(0, one.indexOf('='))));
  if (members.length > maxMembers || keys.size < members.length) return '';
  if (!members.every((one) => member.test(one))) return '';
  return withinLength(members).join(',');
}

function withinLength(members: readonly string[]): string[] {
  const fits = (list: readonly string[]): boolean => list.join(',').length <= maxCharacters;
  const kept = fits(members) ? [...members] : members.filter((one) => one.length <= maxShortMember);
  while (!fits(kept)) kept.pop();
  return kept;
}
