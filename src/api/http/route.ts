import type { RequestHandler } from 'express';
import type { ErrorCode } from '../../core/errors.ts';
import type { OpenApiDocument, Parameter, RequestBody, ResponseObject } from './openapi-types.ts';
import type { ApiPorts } from '../ports.ts';

/**
 * One route, told once: the router serves it and the OpenAPI document describes it from this same value.
 * Plain data but for `handle`, so that the document can be made without a daemon.
 */
export interface Route<Ports = ApiPorts> {
  method: 'get' | 'post';
  /**
   * With parameters in the names of the document: `/runs/{run_id}`. A handler finds it as `req.params.runId`.
   */
  path: string;
  /** Unique; what generated clients call it. */
  operationId: string;
  tag: 'uploads' | 'runs' | 'scene maps' | 'weather' | 'daemon';
  /** A few words. */
  summary: string;
  description?: string;
  /** `token`: always asked for. `optional`: asked for where the configuration says so. */
  access: 'open' | 'token' | 'optional';
  parameters?: readonly Parameter[];
  body?: RequestBody;
  /** What success looks like, by status. */
  responses: Readonly<Record<number, ResponseObject>>;
  /** The refusals of this route; those that every route of its `access` has need not be repeated. */
  problems: readonly ErrorCode[];
  /** Left out: always there. */
  isPresent?: (ports: Ports) => boolean;
  /** `document` makes the OpenAPI document of the routes that are present. */
  handle: (ports: Ports, document: () => OpenApiDocument) => Handler | readonly Handler[];
}

/** A request handler, whatever names its path parameters have. */
export type Handler = RequestHandler<never>;

/** Every code that the route can be refused with. Pure. */
export function problemsOf({ access, problems }: Pick<Route<never>, 'access' | 'problems'>): ErrorCode[] {
  const always: ErrorCode[] = access === 'open' ? ['internal_error'] : ['unauthorized', 'internal_error'];
  return [...new Set([...problems, ...always])];
}
