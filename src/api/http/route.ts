import type { RequestHandler } from 'express';
import type { Scope } from '../../core/config/schema/schema.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import type { RouteAct } from './recorded-acts.ts';
import type { ProblemForm } from './request/request-context.ts';

/**
 * A route, from which both the router and the OpenAPI document are generated. All members except `handle` and
 * `isPresent` are plain data, so generating the document does not need a running daemon. `Ports` is what the
 * handlers need from the rest of the program.
 */
export interface Route<Ports> {
  method: RouteMethod;
  /**
   * Parameters are written as in the OpenAPI document: `/runs/{run_id}`. Handlers read them as
   * `req.params.runId`.
   */
  path: string;
  /** A unique name. Client generators use it as the method name. */
  operationId: string;
  tag: RouteTag;
  /** A few words about what the route does. */
  summary: string;
  description?: string;
  /** `token`: a token is always required. `optional`: it is required if the configuration says so. */
  access: 'open' | 'token' | 'optional';
  /**
   * The scopes that the route accepts: a token needs one of them. `admin` stands for the token of
   * `server.admin_token_env`.
   */
  scopes?: readonly (Scope | 'admin')[];
  parameters?: readonly OpenApiParameter[];
  body?: RequestBody;
  /** Set on routes that machines poll. Successful requests are logged at debug level. */
  isProbe?: true;
  /** Set on routes that start runs. If tracing is on, each request gets a span. */
  isTraced?: true;
  /** The action to record in the audit trail. Required for all methods except GET. */
  audit?: RouteAct;
  /** Descriptions of the successful responses, by status. */
  responses: Readonly<Record<number, ResponseObject>>;
  /** The error codes that clients can get, except for those that `access` and `body` imply. */
  problems: readonly ErrorCode[];
  /**
   * Chooses the format of error responses from the request's URL and `Accept` header. Used for all methods of
   * the path. Default: JSON.
   */
  problemForm?: (url: string, accept: string | undefined) => ProblemForm;
  /** Whether this configuration includes the route. Default: always. */
  isPresent?: (ports: Ports) => boolean;
  /** Creates the handlers. Called once. `served` contains all routes that this configuration includes. */
  handle: (ports: Ports, served: readonly Route<never>[]) => Handler | readonly Handler[];
}

type RouteMethod = 'get' | 'post' | 'patch' | 'delete' | 'options';

/** The groups in the OpenAPI document. */
export type RouteTag = 'uploads' | 'runs' | 'pipelines' | 'scene maps' | 'weather' | 'daemon';

/** A request handler with any path parameters. */
export type Handler = RequestHandler<never>;

/** Returns all error codes that clients can get from the route. */
export function problemsOf({
  access,
  body,
  problems,
  audit,
}: Pick<Route<never>, 'access' | 'body' | 'problems' | 'audit'>): ErrorCode[] {
  const always: ErrorCode[] = access === 'open' ? ['internal_error'] : ['unauthorized', 'internal_error'];
  // These can happen whenever a body is read; see `request/request-body.ts`.
  if (body !== undefined) always.push('upload_timeout', 'shutting_down');
  if (typeof audit === 'string') always.push('audit_unavailable');
  return [...new Set([...problems, ...always])];
}

/** The subset of OpenAPI 3.1 that this API uses. */
export interface OpenApiDocument {
  openapi: '3.1.1';
  info: {
    title: string;
    version: string;
    description: string;
    license: { name: string; identifier: string };
  };
  servers: { url: string }[];
  tags: { name: string; description: string }[];
  paths: Record<string, PathItem>;
  components: {
    schemas: Record<string, JsonSchema>;
    securitySchemes: Record<string, object>;
  };
}

export type PathItem = Partial<Record<'get' | 'post' | 'patch' | 'delete' | 'options', Operation>>;

export interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  description?: string;
  parameters?: readonly OpenApiParameter[];
  requestBody?: RequestBody;
  responses: Record<string, ResponseObject>;
  security: Record<string, string[]>[];
}

export interface OpenApiParameter {
  name: string;
  in: 'path' | 'query' | 'header';
  description: string;
  required?: boolean;
  schema: JsonSchema;
  example?: unknown;
}

export interface RequestBody {
  description: string;
  required: boolean;
  content: Record<string, MediaType>;
}

export interface ResponseObject {
  description: string;
  headers?: Record<string, Header>;
  content?: Record<string, MediaType>;
}

export interface Header {
  description: string;
  required?: boolean;
  schema: JsonSchema;
}

export interface MediaType {
  schema?: JsonSchema;
  example?: unknown;
}

/** Describes a JSON body. `schema` is a schema, or the name of one in the components. */
export function jsonContent(schema: string | JsonSchema, example?: unknown): Record<string, MediaType> {
  const media = { schema: typeof schema === 'string' ? schemaRef(schema) : schema };
  return { 'application/json': example === undefined ? media : { ...media, example } };
}

/** Returns a reference to one of the schemas in `components.ts`. */
export function schemaRef(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

export const pipelineIdParameter: OpenApiParameter = {
  name: 'pipeline_id',
  in: 'path',
  required: true,
  description: 'Id of a pipeline of the configuration.',
  schema: { type: 'string' },
  example: 'maps',
};

export const runIdParameter: OpenApiParameter = {
  name: 'run_id',
  in: 'path',
  required: true,
  description: 'Id of a run, as returned when the run was accepted.',
  schema: { type: 'string' },
  example: 'maps.20261120T020434Z.k3f9q2ab7x',
};
