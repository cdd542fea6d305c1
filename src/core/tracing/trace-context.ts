import { parseTraceparent } from './traceparent.ts';

/**
 * A position in a trace, as the two header values of W3C Trace Context. It is stored in jobs and sent to
 * other hosts and threads. Empty if there is no trace.
 */
export interface TraceContext {
  /** The parent span. */
  traceparent?: string;
  /** Data of other tracing systems. It is passed on but never read or changed. */
  tracestate?: string;
}

/**
 * The context received with a request or in the environment of the process. As W3C requires, a malformed
 * `traceparent` is treated as no context, and a malformed `tracestate` is dropped. Pure.
 */
export function receivedTrace(traceparent: string | undefined, tracestate: string | undefined): TraceContext {
  if (traceparent === undefined || parseTraceparent(traceparent) === null) return {};
  const state = tracestate === undefined ? '' : propagatedState(tracestate);
  return state === '' ? { traceparent } : { traceparent, tracestate: state };
}

/** Picks the trace context from a larger object, such as a job. Pure. */
export function traceOf({ traceparent, tracestate }: TraceContext): TraceContext {
  return {
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(tracestate === undefined ? {} : { tracestate }),
  };
}

// W3C Trace Context, 3.3.1: propagate at least 512 characters of the list and drop long members first. Every
// job and event stores the list, so it is cut to that minimum.
const maxCharacters = 512;
const maxMembers = 32;
const maxShortMember = 128;

const key = /(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})/;
const value = /[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]/;
const member = new RegExp(`^${key.source}=${value.source}$`);

/** Validates the list, trims blanks around its members and shortens it. Returns '' if it is malformed. */
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
