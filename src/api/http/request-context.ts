import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** What goes with a request through all that handles it. */
export interface RequestContext {
  /** A UUID: `instance` of a problem, `X-Request-Id`, and `request_id` in the log. */
  id: string;
  /** What handlers add to the request's line in the log: token id, pipeline id, run id, never a secret. */
  fields: Record<string, string | number | boolean>;
  /**
   * The path of the route that answers, with its parameters' names: `/runs/{run_id}`. Undefined where no
   * route does.
   */
  route?: string;
  /** Bytes of the body that were read, where the reader counts them. */
  received?: number;
  /** Bytes of the body of the answer, where its headers do not tell. */
  sent?: number;
  /** What was thrown, where the fault is ours. */
  failure?: unknown;
}

const contexts = new WeakMap<IncomingMessage, RequestContext>();

export function requestContext(req: IncomingMessage): RequestContext {
  const known = contexts.get(req);
  if (known !== undefined) return known;
  const context: RequestContext = { id: randomUUID(), fields: {} };
  contexts.set(req, context);
  return context;
}
