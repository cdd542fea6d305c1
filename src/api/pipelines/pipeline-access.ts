import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Scope } from '../../core/config/schema/schema.ts';
import type { Clock } from '../../core/lib/clock.ts';
import type { Current } from '../../core/lib/current.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import {
  allows,
  authenticate,
  challenge,
  findCaller,
  noteCaller,
  requireScope,
  requireUnexpired,
  type Token,
  type TokenAccess,
} from '../http/auth.ts';
import { requestContext } from '../http/request/request-context.ts';

/** The configured tokens and pipelines. Replaced on reload. */
export interface RunAccess extends TokenAccess {
  /** The ids of all pipelines, whether they receive uploads or read from a source. */
  pipelineIds: ReadonlySet<string>;
  /** The pipelines that have a source, so that their runs can be started, and the channels of each. */
  sourcePipelines: ReadonlyMap<string, readonly string[]>;
  /** null if there is none. */
  adminToken: Token | null;
}

/** The codes that `authorizeConfigured` throws, except for those that the route's `access` implies. */
export const pipelineAccessProblems = [
  'pipeline_not_found',
  'forbidden',
  'token_expired',
  'insufficient_scope',
] as const satisfies readonly ErrorCode[];

/**
 * Authenticates a request, and adds the token to its log line and audit record. Throws `unauthorized` or
 * `token_expired`.
 */
export function authenticateCaller(
  req: IncomingMessage,
  res: ServerResponse,
  access: TokenAccess,
  clock: Pick<Clock, 'now'>,
): Token {
  const token = challenge(req, res, () => authenticate(req.headers.authorization, access, clock));
  noteCaller(req, token);
  return token;
}

/** Adds the admin token to the tokens that can authenticate a request. */
export function withAdmin({ tokens, publishers, adminToken }: OperatorAccess): TokenAccess {
  return { tokens: adminToken === null ? tokens : [...tokens, adminToken], publishers };
}

type ConfiguredAccess = Pick<RunAccess, 'tokens' | 'publishers' | 'adminToken' | 'pipelineIds'>;

/** What authorization depends on. Each request reads the configuration once. */
interface AuthorizationPorts {
  configured: Current<ConfiguredAccess>;
  clock: Pick<Clock, 'now'>;
}

/**
 * Authorizes a request to a configured pipeline with one of the pipeline's own tokens or, unless
 * `admitsAdmin` is false, the admin token. Throws `unauthorized`, `token_expired`, `pipeline_not_found`,
 * `forbidden` or `insufficient_scope`; the checks are made in this order.
 */
export function authorizeConfigured(
  req: IncomingMessage,
  res: ServerResponse,
  { configured, clock }: AuthorizationPorts,
  { id, scope, admitsAdmin = true }: { id: string; scope: Scope; admitsAdmin?: boolean },
): Token {
  const access = configured.get();
  const token = authenticateCaller(req, res, admitsAdmin ? withAdmin(access) : access, clock);
  permitConfigured(req, res, token, { ...access, id, scope });
  return token;
}

function permitConfigured(
  req: IncomingMessage,
  res: ServerResponse,
  token: Token,
  { pipelineIds, id, scope, adminToken }: ConfiguredAccess & NeededRight,
): void {
  requirePipeline(pipelineIds.has(id) ? id : undefined);
  requestContext(req).fields['pipeline_id'] = id;
  permitPipeline(res, token, { id, scope, adminToken });
}

/** Returns the pipeline. Throws `pipeline_not_found` if it is undefined. */
export function requirePipeline<P>(pipeline: P | undefined, message = 'there is no such pipeline'): P {
  if (pipeline !== undefined) return pipeline;
  throw new WaybillError('pipeline_not_found', message, { hint: 'check the pipeline id in the path' });
}

interface NeededRight {
  id: string;
  /** The scope that the token must have. */
  scope: Scope;
  /** The token that may access every pipeline; null if there is none. */
  adminToken: Token | null;
}

/** Throws `forbidden` or `insufficient_scope` if the authenticated token does not permit the operation. */
export function permitPipeline(
  res: ServerResponse,
  token: Token,
  { id, scope, adminToken }: NeededRight,
): void {
  if (token === adminToken || allows(token, scope, id)) return;
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
            ? 'use the token of this pipeline, or ask the administrator to add the pipeline to upload_tokens'
            : 'ask the administrator of this server for a role',
      },
    );
  if (person === undefined) requireScope(token, scope, res);
  throw new WaybillError(
    'insufficient_scope',
    `your role ${person?.roles.get(id) ?? ''} for the pipeline "${id}" does not permit this`,
    { hint: 'ask the administrator of this server for the role "operator"' },
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
  { configured, clock }: AuthorizationPorts,
  id: string,
): void {
  const access = configured.get();
  const token = callerOf(req, res, access);
  // Only ids that exist are recorded, also with a refusal.
  if (access.pipelineIds.has(id)) requestContext(req).fields['pipeline_id'] = id;
  if (token !== access.adminToken && !token.pipelines.has(id))
    throw new WaybillError('forbidden', `the token "${token.id}" is not for this pipeline`, {
      hint: 'use a token of the pipeline, or the admin token',
    });
  challenge(req, res, () => requireUnexpired(token, clock));
  permitConfigured(req, res, token, { ...access, id, scope: 'cancel' });
}

/** Returns the token of a request, even if it has expired. Throws `unauthorized`. */
function callerOf(req: IncomingMessage, res: ServerResponse, access: OperatorAccess): Token {
  const token = challenge(req, res, () => findCaller(req.headers.authorization, withAdmin(access)));
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
  const token = authenticateCaller(req, res, configured.get(), clock);
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
        hint: 'leave it out, or ask the administrator to add the pipeline to upload_tokens',
      });
  }
  return named.length > 0 ? [...named] : [...pipelines].filter((pipelineId) => pipelineIds.has(pipelineId));
}
