import { parseTraceparent } from './traceparent.ts';

/**
 * Where something stands in a trace, as W3C Trace Context hands it on: two texts that go wherever it goes,
 * over queue, hosts and threads. Empty if nothing is traced.
 */
export interface TraceContext {
  /** The span that it belongs to. */
  traceparent?: string;
  /** What tracing systems on the way have added for themselves. Nobody here reads or changes it. */
  tracestate?: string;
}

/**
 * The context that a request came with, or a process was started with. A `traceparent` that is none counts as
 * no context at all, and so does a `tracestate` that is malformed, as W3C asks for. Pure.
 */
export function receivedTrace(traceparent: string | undefined, tracestate: string | undefined): TraceContext {
  if (traceparent === undefined || parseTraceparent(traceparent) === null) return {};
  const state = tracestate === undefined ? '' : passedOn(tracestate);
  return state === '' ? { traceparent } : { traceparent, tracestate: state };
}

/** The context alone of what stands in a trace, such as a job. Pure. */
export function traceOf({ traceparent, tracestate }: TraceContext): TraceContext {
  return {
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(tracestate === undefined ? {} : { tracestate }),
  };
}

// W3C Trace Context, 3.3.1: whoever hands a list on has to hand on so many characters of it at least, and
// leaves out long members first. It stands in every job and event, so no more than that.
const mostCharacters = 512;
const mostMembers = 32;
const longMember = 128;

const key = /(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})/;
const value = /[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]/;
const member = new RegExp(`^${key.source}=${value.source}$`);

/** The list as it is handed on, without blanks around its members; empty if it is malformed. */
function passedOn(tracestate: string): string {
  const members = tracestate
    .split(',')
    .map((one) => one.replace(/^[ \t]+|[ \t]+$/g, ''))
    .filter((one) => one !== '');
  const keys = new Set(members.map((one) => one.slice(0, one.indexOf('='))));
  if (members.length > mostMembers || keys.size < members.length) return '';
  if (!members.every((one) => member.test(one))) return '';
  return withinLength(members).join(',');
}

function withinLength(members: readonly string[]): string[] {
  const isShort = (list: readonly string[]): boolean => list.join(',').length <= mostCharacters;
  const kept = isShort(members) ? [...members] : members.filter((one) => one.length <= longMember);
  while (!isShort(kept)) kept.pop();
  return kept;
}
