/** Identifies a span in a trace, as in W3C Trace Context. */
export interface SpanContext {
  /** 32 hexadecimal digits in lowercase. */
  traceId: string;
  /** 16 hexadecimal digits in lowercase. */
  spanId: string;
  /** Whether the trace is recorded, as decided by the process that started it. */
  isSampled: boolean;
}

const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const isZero = /^0+$/;

/**
 * Parses a `traceparent`. Returns null if it is missing or malformed, in which case W3C says that there is
 * no parent. For versions after 00, only the fields of version 00 are used.
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

/** Returns a log field with the id of the trace, or no fields if there is no trace. */
export function traceFields({ traceparent }: { traceparent?: string }): { trace_id?: string } {
  const context = traceparent === undefined ? null : parseTraceparent(traceparent);
  return context === null ? {} : { trace_id: context.traceId };
}

/**
 * A place in a trace, in the form of the two headers of W3C Trace Context. It is stored in jobs, and sent to
 * other hosts and threads. Empty if there is no trace.
 */
export interface TraceContext {
  /** The parent span. */
  traceparent?: string;
  /** Data that other tracing systems have added. We only pass it on. */
  tracestate?: string;
}

/**
 * Returns the context that came with a request or from the environment. Following W3C, a malformed
 * `traceparent` means that there is no context, and a malformed `tracestate` is dropped.
 */
export function receivedTrace(traceparent: string | undefined, tracestate: string | undefined): TraceContext {
  if (traceparent === undefined || parseTraceparent(traceparent) === null) return {};
  const state = tracestate === undefined ? '' : propagatedState(tracestate);
  return state === '' ? { traceparent } : { traceparent, tracestate: state };
}

/** Takes the trace context out of a larger object, such as a job. */
export function traceOf({ traceparent, tracestate }: TraceContext): TraceContext {
  return {
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(tracestate === undefined ? {} : { tracestate }),
  };
}

// W3C Trace Context (3.3.1) asks us to pass on at least 512 characters of the list, and to drop long members
// first. The list is stored in every job and event, so it is never longer than that.
const maxCharacters = 512;
const maxMembers = 32;
const maxShortMember = 128;

const key = /(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})/;
const value = /[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]/;
const member = new RegExp(`^${key.source}=${value.source}$`);

/**
 * Checks the list, removes spaces around its members, and shortens it if necessary. Returns '' if it is
 * malformed.
 */
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
