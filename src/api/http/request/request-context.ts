import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Act, Actor } from '../../../core/audit/record.ts';
import type { Clock, Timer } from '../../../core/lib/clock.ts';
import type { ErrorCode } from '../../../core/lib/error-codes.ts';
import type { PublishedBy } from '../../../core/publishers/published-by.ts';
import type { TraceContext } from '../../../core/tracing/trace-context.ts';

/** The formats of a problem document. JSON and XML are defined in RFC 9457. Text and HTML are for people. */
export type ProblemForm = 'json' | 'xml' | 'text' | 'html';

/** A rerun of another run, or the reason why a run could not be repeated, without its id. */
export type RequestedRerun = { pipelineId: string; runId: string; rerunOf: string } | { code: ErrorCode };

/** A logged-in visitor, as the header of each page and the error pages show them. */
export interface Account {
  name: string;
  /** Whether they logged in with a token, and not as a person. */
  isToken: boolean;
  /** The full path of their account page. */
  href: string;
  /** The full path of the page of the daemon; null if they may not open it. */
  daemon: string | null;
  /** The full path to `POST` to when logging out. The form has to contain `csrf`. */
  signOut: string;
  csrf: string;
}

/** Data about a request that all of its handlers share. */
export interface RequestContext {
  /**
   * A UUID. It is the problem document's `instance`, the `X-Request-Id` header, and the log's `request_id`.
   */
  id: string;
  /** The client's IP address; null if unknown. */
  client?: string | null;
  /** Throws if the request is no longer authorized. Undefined for requests that need no authorization. */
  authorize?: () => unknown;
  /** The trusted publisher that got the request's token. */
  publishedBy?: PublishedBy;
  /**
   * Fields to add to the request's log line, such as the ids of the token, pipeline and run. Must not contain
   * secrets.
   */
  fields: Record<string, string | number | boolean>;
  /**
   * When the connection was accepted, in monotonic milliseconds. Only set for the first request on a
   * connection, to measure how long new clients have to wait.
   */
  acceptedAt?: number;
  /**
   * The path of the matching route, with parameter names: `/runs/{run_id}`. Undefined if no route matches.
   */
  route?: string;
  /** Whether this is a health check or similar, which is logged at debug level. */
  isProbe?: boolean;
  /**
   * The format for error responses. If undefined, clients that prefer HTML get a page, and all others get
   * JSON.
   */
  problemForm?: ProblemForm;
  /** Additional members for the problem document if the request fails. */
  problemMembers?: Readonly<Record<string, unknown>>;
  /**
   * Set if the request completes a resumable upload and queues it, so that it gets the same response as a
   * normal upload.
   */
  finishesUpload?: true;
  /**
   * The action to record in the audit trail; null if nothing has changed after all. Undefined if the request
   * is not audited.
   */
  act?: Act | null;
  /**
   * The result of each rerun, for actions that can rerun several runs. Each one gets its own audit record.
   */
  reruns?: RequestedRerun[];
  /** The visitor who is logged in to the console. */
  account?: Account;
  /** The client that made the request, if it did not use a configured token. Must not contain secrets. */
  actor?: Actor;
  /**
   * The request's tracing span, which becomes the parent of everything the request starts. Empty if there is
   * no tracing.
   */
  trace: TraceContext;
  /** The number of bytes read from the body, if the reader counts them. */
  received?: number;
  /** The size of the response body in bytes, if it differs from Content-Length. */
  sent?: number;
  /** The error that was thrown, if it is a server error. */
  failure?: unknown;
}

// Stored in a property, because a WeakMap with thousands of new keys per second would dominate garbage
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

/** Returns the request's span and caller, to be recorded in the runs that it starts. */
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
 * Ends requests in progress when a reload, an expired token or a logout takes away their authorization:
 * uploads, streams and waiting requests alike. A request remembers the check that admitted it, and long
 * requests repeat that check.
 */

/**
 * How often a long request repeats its check, in milliseconds. It ends within a second after a reload, which
 * takes a part of that second. The end of a session at another host is noticed by the second check.
 */
export const recheckMs = 500;

/**
 * Runs `authorize` and remembers it, so that it can be repeated later in the same request. It must look at
 * the current configuration on each call. Returns its result, and throws the same errors.
 */
export function keepAuthorized<T>(req: IncomingMessage, authorize: () => T): T {
  const admitted = authorize();
  requestContext(req).authorize = authorize;
  return admitted;
}

/**
 * Throws the error that the request would get if it were made now. Does nothing for requests without
 * authorization.
 */
export function requireAuthorized(req: IncomingMessage): void {
  requestContext(req).authorize?.();
}

/**
 * Calls `end` with the error shortly after the request loses its authorization. The caller must cancel the
 * timer.
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
