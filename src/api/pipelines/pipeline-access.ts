import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Scope } from '../../core/config/schema/schema.ts';
import type { Clock } from '../../core/lib/clock.ts';
import type { Current } from '../../core/lib/current.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import {
  type AccessTokens,
  allows,
  authenticate,
  challenge,
  findCaller,
  noteCaller,
  requireScope,
  type Token,
  type TokenAccess,
} from '../http/auth.ts';
import { requestContext } from '../http/request/request-context.ts';

/** The configured tokens and pipelines. Replaced on reload. */
export interface RunAccess extends TokenAccess {
  /** The ids of all pipelines, whether they receive uploads or read from a source. */
  pipelineIds: ReadonlySet<string>;
  /** The pipelines that have a source, so that operators can start their runs, and the channels of each. */
  sourcePipelines: ReadonlyMap<string, readonly string[]>;
  /** null if there is none. */
  adminToken: Token | null;
}

/** The codes that `authorizePipeline` throws, apart from those that the route's `access` already implies. */
export const pipelineAccessProblems = [
  'pipeline_not_found',
  'forbidden',
  'token_expired',
  'insufficient_scope',
] as const satisfies readonly ErrorCode[];

/**
 * Authorizes a request to a pipeline, and adds the token and the pipeline to its log line. `find` returns
 * what the route needs to know about the pipeline. It returns undefined if the route does not apply to this
 * pipeline, which is an error with the message `unknown`. If `adminToken` is given, it may access every
 * pipeline. Throws `unauthorized`, `token_expired`, `pipeline_not_found`, `forbidden` or
 * `insufficient_scope`; the checks are made in this order.
 */
export function authorizePipeline<P>(
  req: IncomingMessage,
  res: ServerResponse,
  {
    tokens,
    publishers,
    clock,
    adminToken = null,
    id,
    scope,
    find,
    unknown = 'there is no such pipeline',
  }: {
    tokens: readonly Token[];
    publishers: AccessTokens;
    clock: Pick<Clock, 'now'>;
    adminToken?: Token | null;
    id: string;
    /** The scope that the token must have. */
    scope: Scope;
    find: (id: string) => P | undefined;
    unknown?: string;
  },
): { token: Token; pipeline: P } {
  const { fields } = requestContext(req);
  const known = adminToken === null ? tokens : [...tokens, adminToken];
  const access = { tokens: known, publishers };
  const token = challenge(req, res, () => authenticate(req.headers.authorization, access, clock));
  noteCaller(req, token);
  const pipeline = permitPipeline(res, token, { adminToken, id, scope, find, unknown });
  fields['pipeline_id'] = id;
  return { token, pipeline };
}

/**
 * Authorizes a request to a configured pipeline with either the admin token or one of the pipeline's own
 * tokens. Throws the same errors as `authorizePipeline`.
 */
export function authorizeConfigured(
  req: IncomingMessage,
  res: ServerResponse,
  {
    configured,
    clock,
  }: {
    configured: Current<Pick<RunAccess, 'tokens' | 'publishers' | 'adminToken' | 'pipelineIds'>>;
    clock: Pick<Clock, 'now'>;
  },
  { id, scope, admitsAdmin = true }: { id: string; scope: Scope; admitsAdmin?: boolean },
): Token {
  const { tokens, publishers, adminToken, pipelineIds } = configured.get();
  const find = (wanted: string): string | undefined => (pipelineIds.has(wanted) ? wanted : undefined);
  const admin = admitsAdmin ? adminToken : null;
  return authorizePipeline(req, res, { tokens, publishers, clock, adminToken: admin, id, scope, find }).token;
}

/**
 * Makes the same checks for a token that has already been authenticated. Throws the same errors as
 * `authorizePipeline`, except for `unauthorized`.
 */
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
  if (token === adminToken || allows(token, scope, id)) return pipeline;
  const { person } = token;
  if (!token.pipelines.has(id))
    throw new WaybillError(
      'forbidden',
      person === undefined
        ? `the token "${token.id}" is not for the pipeline "${id}"`
        : `you have no role for the pipeline "${id}"`,
      {
        hint:
          person === undefined
            ? 'use the token of this pipeline, or have the pipeline added to upload_tokens'
            : 'ask the operator of this server for a role',
      },
    );
  if (person === undefined) requireScope(token, scope, res);
  throw new WaybillError(
    'insufficient_scope',
    `your role ${person?.roles.get(id) ?? ''} for the pipeline "${id}" does not permit this`,
    { hint: 'ask the operator of this server for the role operator' },
  );
}

/** The tokens that can be used on routes for the whole daemon. */
export interface OperatorAccess extends TokenAccess {
  adminToken: Token | null;
}

/**
 * Authorizes a request with the admin token, and adds the token to its log line. Throws `unauthorized` or
 * `forbidden`.
 */
export function authorizeOperator(req: IncomingMessage, res: ServerResponse, access: OperatorAccess): void {
  requireAdminToken(callerOf(req, res, access), access);
}

/**
 * Authorizes a request to pause a pipeline, with either the admin token or one of the pipeline's own tokens
 * with the `cancel` scope. Other tokens are rejected first, so that they cannot find out which pipelines
 * exist. Throws the same errors as `authorizeConfigured`.
 */
export function authorizePause(
  req: IncomingMessage,
  res: ServerResponse,
  ports: Parameters<typeof authorizeConfigured>[2],
  id: string,
): void {
  const access = ports.configured.get();
  const token = callerOf(req, res, access);
  if (token !== access.adminToken && !token.pipelines.has(id))
    throw new WaybillError('forbidden', `the token "${token.id}" is not for this pipeline`, {
      hint: 'use a token of the pipeline, or the admin token',
    });
  authorizeConfigured(req, res, ports, { id, scope: 'cancel' });
}

function callerOf(
  req: IncomingMessage,
  res: ServerResponse,
  { tokens, publishers, adminToken }: OperatorAccess,
): Token {
  const access = { tokens: adminToken === null ? tokens : [...tokens, adminToken], publishers };
  const token = challenge(req, res, () => findCaller(req.headers.authorization, access));
  noteCaller(req, token);
  return token;
}

/** Throws `forbidden` if the token is not the admin token. */
export function requireAdminToken(token: Token, { adminToken }: Pick<OperatorAccess, 'adminToken'>): void {
  if (token === adminToken) return;
  throw new WaybillError('forbidden', 'this needs the admin token', {
    hint:
      adminToken === null
        ? 'name the variable that holds it in server.admin_token_env'
        : 'use the admin token',
  });
}

/**
 * Returns the token of a request that can read several pipelines. Throws `unauthorized`, `token_expired` and
 * `insufficient_scope`.
 */
export function tokenOfCaller(
  req: IncomingMessage,
  res: ServerResponse,
  { configured, clock }: { configured: Current<TokenAccess>; clock: Pick<Clock, 'now'> },
): Token {
  const token = challenge(req, res, () => authenticate(req.headers.authorization, configured.get(), clock));
  noteCaller(req, token);
  requireScope(token, 'read', res);
  return token;
}

/**
 * Returns the pipelines that a request asks for. By default, these are all configured pipelines that its
 * token can access. Throws `pipeline_not_found`, or `forbidden` if the token cannot access one of them.
 */
export function pipelinesOf(
  { id, pipelines }: Token,
  named: readonly string[],
  { configured }: { configured: Current<Pick<RunAccess, 'pipelineIds'>> },
): string[] {
  const { pipelineIds } = configured.get();
  for (const pipelineId of named) {
    if (!pipelineIds.has(pipelineId))
      throw new WaybillError('pipeline_not_found', `there is no pipeline "${pipelineId}"`, {
        hint: 'check the ids in the query',
      });
    if (!pipelines.has(pipelineId))
      throw new WaybillError('forbidden', `the token "${id}" is not for the pipeline "${pipelineId}"`, {
        hint: 'leave it out, or have the pipeline added to upload_tokens',
      });
  }
  return named.length > 0 ? [...named] : [...pipelines].filter((pipelineId) => pipelineIds.has(pipelineId));
}
