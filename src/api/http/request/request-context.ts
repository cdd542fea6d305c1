import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Clock, Timer } from '../../../core/lib/clock.ts';
import type { TraceContext } from '../../../core/tracing/trace-context.ts';

/** The forms of a problem document. RFC 9457 defines two of them; text and HTML are for people. */
export type ProblemForm = 'json' | 'xml' | 'text' | 'html';

/** What accompanies a request through everything that handles it. */
export interface RequestContext {
  /** A UUID: `instance` of a problem, `X-Request-Id`, and `request_id` in the log. */
  id: string;
  /** The address of the client; null if it is unknown. */
  client?: string | null;
  /** Throws if the request is no longer allowed; undefined if it needs no token. */
  authorize?: () => unknown;
  /** What handlers add to the request's log line: token id, pipeline id, run id; never a secret. */
  fields: Record<string, string | number | boolean>;
  /**
   * When the connection was accepted, in monotonic milliseconds, if this is its first request: how long a new
   * client waits is seen from there only.
   */
  acceptedAt?: number;
  /** Path of the matching route, with its parameter names: `/runs/{run_id}`. Undefined if none matches. */
  route?: string;
  /** Whether the route is a probe, which is hardly worth a line. */
  isProbe?: boolean;
  /** The form of a refusal; undefined: a page for whoever takes HTML rather than JSON, else JSON. */
  problemForm?: ProblemForm;
  /** What a refusal tells beside what every problem document has. */
  problemMembers?: Readonly<Record<string, unknown>>;
  /** The request hands a resumable upload to the queue: its answer is that of an upload. */
  finishesUpload?: true;
  /** The span of the request: what it starts belongs to that. Empty if it is not traced. */
  trace: TraceContext;
  /** Bytes read from the request body, if its reader counts them. */
  received?: number;
  /** Bytes of the response body, if they differ from its Content-Length. */
  sent?: number;
  /** What was thrown, if the fault is ours. */
  failure?: unknown;
}

// On the request itself: in a WeakMap, thousands of keys a second are most of what collecting garbage costs.
const ofRequest = Symbol('request context');

type WithContext = IncomingMessage & { [ofRequest]?: RequestContext };

export function requestContext(req: WithContext): RequestContext {
  const known: RequestContext | undefined = req[ofRequest];
  if (known !== undefined) return known;
  const context: RequestContext = { id: randomUUID(), fields: {}, trace: {} };
  req[ofRequest] = context;
  return context;
}

/*
 * A reload, an expiry or a logout also ends what has begun before it: bodies, streams and waits. Each request
 * keeps the check that admitted it, and the check is repeated while the request takes time.
 */

/** The longest time for which a token that is gone can go on with what it has begun. */
export const recheckMs = 1_000;

/**
 * Returns what `authorize` returns, and repeats it later to see whether the request is still allowed.
 * `authorize` has to read the current configuration each time. Throws what `authorize` throws.
 */
export function keepAuthorized<T>(req: IncomingMessage, authorize: () => T): T {
  const admitted = authorize();
  requestContext(req).authorize = authorize;
  return admitted;
}

/** Throws what a new request like this one would be refused with. Does nothing for an anonymous request. */
export function requireAuthorized(req: IncomingMessage): void {
  requestContext(req).authorize?.();
}

/** Calls `end` with the refusal soon after the request is no longer allowed. The timer is to be cancelled. */
export function watchAuthority(
  req: IncomingMessage,
  clock: Pick<Clock, 'every'>,
  end: (refusal: unknown) => void,
): Timer {
  const timer = clock.every(recheckMs, () => {
    try {
      requireAuthorized(req);
    } catch (refusal) {
      timer.cancel();
      end(refusal);
    }
  });
  return timer;
}
