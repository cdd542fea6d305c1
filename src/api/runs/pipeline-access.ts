import type { IncomingMessage, ServerResponse } from 'node:http';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Clock } from '../../core/lib/clock.ts';
import type { Scope } from '../../core/config/schema/schema.ts';
import { authenticate, challenge, findToken, requireScope, type Token } from '../http/auth.ts';
import { requestContext } from '../http/request/request-context.ts';

/**
 * Checks that a request may act on the pipeline `id`, and adds token and pipeline to its log line. `find`
 * returns what the route knows about the pipeline, or undefined if the route does not serve it; `unknown` is
 * then the message. `adminToken`, if it is given, may act on every pipeline. Throws `unauthorized`,
 * `token_expired`, `pipeline_not_found`, `forbidden` or `insufficient_scope`, checked in this order.
 */
export function authorizePipeline<P>(
  req: IncomingMessage,
  res: ServerResponse,
  {
    tokens,
    clock,
    adminToken = null,
    id,
    scope,
    find,
    unknown = 'there is no such pipeline',
  }: {
    tokens: readonly Token[];
    clock: Pick<Clock, 'now'>;
    adminToken?: Token | null;
    id: string;
    /** What the request does. */
    scope: Scope;
    find: (id: string) => P | undefined;
    unknown?: string;
  },
): { token: Token; pipeline: P } {
  const { fields } = requestContext(req);
  const known = adminToken === null ? tokens : [...tokens, adminToken];
  const token = challenge(req, res, () => authenticate(req.headers.authorization, known, clock));
  fields['token_id'] = token.id;
  const pipeline = permitPipeline(res, token, { adminToken, id, scope, find, unknown });
  fields['pipeline_id'] = id;
  return { token, pipeline };
}

/** The same for whoever has shown the token before. Throws as `authorizePipeline`, but for `unauthorized`. */
export function permitPipeline<P>(
  res: ServerResponse,
  token: Token,
  {
    adminToken,
    id,
    scope,
    find,
    unknown = 'there is no such pipeline',
  }: {
    adminToken: Token | null;
    id: string;
    scope: Scope;
    find: (id: string) => P | undefined;
    unknown?: string;
  },
): P {
  const pipeline = find(id);
  if (pipeline === undefined)
    throw new WaybillError('pipeline_not_found', unknown, { hint: 'check the pipeline id in the path' });
  if (token !== adminToken && !token.pipelines.has(id)) {
    throw new WaybillError('forbidden', `the token "${token.id}" is not for the pipeline "${id}"`, {
      hint: 'use the token of this pipeline, or have the pipeline added to upload_tokens',
    });
  }
  requireScope(token, scope, res);
  return pipeline;
}

/** Who a request may come from that concerns the daemon as a whole. */
export interface OperatorAccess {
  tokens: readonly Token[];
  adminToken: Token | null;
}

/**
 * Checks that a request has the admin token, and adds the token to its log line. Throws `unauthorized` or
 * `forbidden`.
 */
export function authorizeOperator(req: IncomingMessage, res: ServerResponse, access: OperatorAccess): void {
  requireAdminToken(callerOf(req, res, access), access);
}

/**
 * Checks that a request about the pipeline `id` has the admin token, and adds token and pipeline to its log
 * line. Throws `unauthorized`, `forbidden` or `pipeline_not_found`, checked in this order: the token of a
 * producer does not learn which pipelines exist.
 */
export function authorizeAdmin(
  req: IncomingMessage,
  res: ServerResponse,
  access: OperatorAccess & { pipelineIds: ReadonlySet<string>; id: string },
): void {
  requireAdminToken(callerOf(req, res, access), access);
  if (!access.pipelineIds.has(access.id))
    throw new WaybillError('pipeline_not_found', 'there is no such pipeline', {
      hint: 'check the pipeline id in the path',
    });
  requestContext(req).fields['pipeline_id'] = access.id;
}

function callerOf(req: IncomingMessage, res: ServerResponse, { tokens, adminToken }: OperatorAccess): Token {
  const known = adminToken === null ? tokens : [...tokens, adminToken];
  const token = challenge(req, res, () => findToken(req.headers.authorization, known));
  requestContext(req).fields['token_id'] = token.id;
  return token;
}

/** Throws `forbidden` for any other token than that of whoever runs the daemon. */
export function requireAdminToken(token: Token, { adminToken }: Pick<OperatorAccess, 'adminToken'>): void {
  if (token === adminToken) return;
  throw new WaybillError('forbidden', 'this needs the admin token', {
    hint:
      adminToken === null
        ? 'name the variable that holds it in server.admin_token_env'
        : 'use the token of server.admin_token_env',
  });
}
