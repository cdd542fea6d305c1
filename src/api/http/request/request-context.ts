import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Act, Actor } from '../../../core/audit/record.ts';
import type { Clock, Timer } from '../../../core/lib/clock.ts';
import type { ErrorCode } from '../../../core/lib/error-codes.ts';
import type { PublishedBy } from '../../../core/publishers/published-by.ts';
import type { TraceContext } from '../../../core/tracing/trace-context.ts';

/** The forms of a problem document. RFC 9457 defines JSON and XML; text and HTML are for people. */
export type ProblemForm = 'json' | 'xml' | 'text' | 'html';

/** A run that repeats another one, or the refusal to repeat one, which names no run. */
export type Rerun = { pipelineId: string; runId: string; rerunOf: string } | { code: ErrorCode };

/** State that stays with a request through all of its handlers. */
export interface RequestContext {
  /** A UUID, used as a problem's `instance`, in `X-Request-Id`, and as `request_id` in the log. */
  id: string;
  /** The client's address; null if unknown. */
  client?: string | null;
  /** Throws if the request is no longer allowed. Undefined if the request needs no token. */
  authorize?: () => unknown;
  /** The trusted publisher that the request's token was issued to. */
  publishedBy?: PublishedBy;
  /**
   * Fields that handlers add to the request's log line, such as token id, pipeline id and run id. Never
   * contains a secret.
   */
  fields: Record<string, string | number | boolean>;
  /**
   * When the connection was accepted, in monotonic milliseconds. Set only for a connection's first request.
   * Shows how long a new client waits for its request to be handled.
   */
  acceptedAt?: number;
  /**
   * The matching route's path with its parameter names, such as `/runs/{run_id}`. Undefined if none matches.
   */
  route?: string;
  /** Whether the route is a probe. Probes are logged at level debug. */
  isProbe?: boolean;
  /**
   * The form of a refusal. If undefined, clients that prefer HTML to JSON get a page, and all others get
   * JSON.
   */
  problemForm?: ProblemForm;
  /** Members of the refusal, in addition to those of every problem document. */
  problemMembers?: Readonly<Record<string, unknown>>;
  /** Set if the request adds a resumable upload to the queue, so that it is answered like an upload. */
  finishesUpload?: true;
  /** The request's audited act; null if it turned out to change nothing. Undefined for other requests. */
  act?: Act | null;
  /** The runs that the request repeated, if it can repeat several. Each has its own audit record. */
  reruns?: Rerun[];
  /** The request's actor, if it is not a token from the configuration. Never contains a secret. */
  actor?: Actor;
  /**
   * The request's span, which is the parent of the work that it starts. Empty if the request is not traced.
   */
  trace: TraceContext;
  /** The number of bytes read from the request body, if its reader counts them. */
  received?: number;
  /** The number of bytes in the response body, if it differs from its Content-Length. */
  sent?: number;
  /** The thrown error, if it is a server fault. */
  failure?: unknown;
}

// A property instead of a WeakMap: thousands of WeakMap keys a second would dominate the cost of garbage
// collection.
const ofRequest = Symbol('request context');

type WithContext = IncomingMessage & { [ofRequest]?: RequestContext };

export function requestContext(req: WithContext): RequestContext {
  const known: RequestContext | undefined = req[ofRequest];
  if (known !== undefined) return known;
  const context: RequestContext = { id: randomUUID(), fields: {}, trace: {} };
  req[ofRequest] = context;
  return context;
}

/** Returns a request's span and caller, for the runs that it starts. */
export function originOf(
  req: IncomingMessage,
): TraceContext & { tokenId?: string; publishedBy?: PublishedBy } {
  const { trace, fields, publishedBy } = requestContext(req);
  const id = fields['token_id'];
  return {
    ...trace,
    ...(typeof id === 'string' ? { tokenId: id } : {}),
    ...(publishedBy === undefined ? {} : { publishedBy }),
  };
}

/*
 * Makes reloads, expiries and logouts end requests in progress, too: bodies, streams and waits. Each request
 * keeps the check that admitted it, and long requests repeat the check.
 */

/**
 * How often a long request repeats its check, in milliseconds. It ends within a second after a reload, which
 * takes a part of that second. The end of a session at another host is noticed by the second check.
 */
export const recheckMs = 500;

/**
 * Returns the result of `authorize` and keeps the function for later checks of the same request. `authorize`
 * must read the current configuration on every call. Throws the same errors as `authorize`.
 */
export function keepAuthorized<T>(req: IncomingMessage, authorize: () => T): T {
  const admitted = authorize();
  requestContext(req).authorize = authorize;
  return admitted;
}

/** Throws the error that a new request of this kind would get. Does nothing for an anonymous request. */
export function requireAuthorized(req: IncomingMessage): void {
  requestContext(req).authorize?.();
}

/**
 * Calls `end` with the refusal soon after the request is no longer allowed. The caller must cancel the timer.
 */
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
