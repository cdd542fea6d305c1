import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Act, Actor } from '../../../core/audit/record.ts';
import type { Clock, Timer } from '../../../core/lib/clock.ts';
import type { ErrorCode } from '../../../core/lib/error-codes.ts';
import type { PublishedBy } from '../../../core/publishers/published-by.ts';
import type { TraceContext } from '../../../core/tracing/trace-context.ts';

/** The forms of a problem document. RFC 9457 defines JSON and XML; text and HTML are for people. */
export type ProblemForm = 'json' | 'xml' | 'text' | 'html';

/** A run that repeats another, or the refusal to repeat one, which names no run. */
export type Rerun = { pipelineId: string; runId: string; rerunOf: string } | { code: ErrorCode };

/** State that accompanies a request through all of its handlers. */
export interface RequestContext {
  /** A UUID: `instance` of a problem, `X-Request-Id`, and `request_id` in the log. */
  id: string;
  /** The address of the client; null if it is unknown. */
  client?: string | null;
  /** Throws if the request is no longer allowed. Undefined if the request needs no token. */
  authorize?: () => unknown;
  /** The trusted publisher that the token of the request was issued to. */
  publishedBy?: PublishedBy;
  /** Fields that handlers add to the request's log line: token id, pipeline id, run id. Never a secret. */
  fields: Record<string, string | number | boolean>;
  /**
   * When the connection was accepted, in monotonic milliseconds. Set for the first request of a connection
   * only. Shows how long a new client waits before its request is handled.
   */
  acceptedAt?: number;
  /** Path of the matching route, with its parameter names: `/runs/{run_id}`. Undefined if none matches. */
  route?: string;
  /** Whether the route is a probe, which is logged at level debug. */
  isProbe?: boolean;
  /** The form of a refusal. Undefined: a page for clients that prefer HTML to JSON, otherwise JSON. */
  problemForm?: ProblemForm;
  /** Members of the refusal in addition to those of every problem document. */
  problemMembers?: Readonly<Record<string, unknown>>;
  /** The request hands a resumable upload to the queue, so it is answered like an upload. */
  finishesUpload?: true;
  /** The audited act of the request; null: it turned out to change nothing. Undefined for other requests. */
  act?: Act | null;
  /** The runs that the request repeated, if it can repeat several: each has an audit record of its own. */
  reruns?: Rerun[];
  /** The subject of the request, if it is not a token of the configuration. Never contains a secret. */
  actor?: Actor;
  /** The span of the request and parent of the work that it starts. Empty if it is not traced. */
  trace: TraceContext;
  /** Bytes read from the request body, if its reader counts them. */
  received?: number;
  /** Bytes of the response body, if they differ from its Content-Length. */
  sent?: number;
  /** The thrown error, if it is a server fault. */
  failure?: unknown;
}

// A property, not a WeakMap: thousands of WeakMap keys a second dominate the cost of garbage collection.
const ofRequest = Symbol('request context');

type WithContext = IncomingMessage & { [ofRequest]?: RequestContext };

export function requestContext(req: WithContext): RequestContext {
  const known: RequestContext | undefined = req[ofRequest];
  if (known !== undefined) return known;
  const context: RequestContext = { id: randomUUID(), fields: {}, trace: {} };
  req[ofRequest] = context;
  return context;
}

/** The span and the caller of a request, for the runs that it starts. */
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
 * A reload, an expiry or a logout also ends requests in progress: bodies, streams and waits. Each request
 * keeps the check that admitted it. Long requests repeat the check.
 */

/** How often a long request repeats its check, and so how long it can outlive its token. Milliseconds. */
export const recheckMs = 1_000;

/**
 * Returns the result of `authorize`, and keeps it for later checks of the same request. `authorize` must read
 * the current configuration on each call. Throws what `authorize` throws.
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

/** Calls `end` with the refusal soon after the request is no longer allowed. The caller cancels the timer. */
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
