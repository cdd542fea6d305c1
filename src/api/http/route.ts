import type { RequestHandler } from 'express';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { RouteAct } from './recorded-acts.ts';
import type { ProblemForm } from './request/request-context.ts';

/**
 * One route. Both the router and the OpenAPI document derive from this value. Everything except `handle` and
 * `isPresent` is plain data, so the document can be generated without a daemon. `Ports` lists what its
 * handlers need from the program; each feature declares its own.
 */
export interface Route<Ports> {
  method: RouteMethod;
  /**
   * Uses the document's parameter names, such as `/runs/{run_id}`. Handlers read that parameter as
   * `req.params.runId`.
   */
  path: string;
  /** Unique. Client generators use it as the method name. */
  operationId: string;
  tag: RouteTag;
  /** A summary in a few words. */
  summary: string;
  description?: string;
  /**
   * `token` means that a token is always required; `optional`, that it is required if the configuration says
   * so.
   */
  access: 'open' | 'token' | 'optional';
  parameters?: readonly Parameter[];
  body?: RequestBody;
  /** Set for routes that machines poll. Their requests are logged at level debug unless they are refused. */
  isProbe?: true;
  /** Set if requests start runs. With tracing on, each request gets a span. */
  isTraced?: true;
  /** The act that the audit trail records. Required for every method except GET. */
  audit?: RouteAct;
  /** The successful responses by status. */
  responses: Readonly<Record<number, ResponseObject>>;
  /** The route's error codes. Codes implied by `access` or `body` need not be repeated. */
  problems: readonly ErrorCode[];
  /**
   * Chooses the form of refusals from the request's URL and `Accept`. Applies to all methods of the path.
   * Default: JSON.
   */
  problemForm?: (url: string, accept: string | undefined) => ProblemForm;
  /** Whether the route is served with this configuration. Default: always. */
  isPresent?: (ports: Ports) => boolean;
  /** Creates the handlers; called once. `served` lists all routes that are served along with this one. */
  handle: (ports: Ports, served: readonly Route<never>[]) => Handler | readonly Handler[];
}

type RouteMethod = 'get' | 'post' | 'patch' | 'delete' | 'options';

/** The groups of the OpenAPI document. */
export type RouteTag = 'uploads' | 'runs' | 'pipelines' | 'scene maps' | 'weather' | 'daemon';

/** A request handler for any path parameters. */
export type Handler = RequestHandler<never>;

/** Returns every error code that the route can answer with. */
export function problemsOf({
  access,
  body,
  problems,
  audit,
}: Pick<Route<never>, 'access' | 'body' | 'problems' | 'audit'>): ErrorCode[] {
  const always: ErrorCode[] = access === 'open' ? ['internal_error'] : ['unauthorized', 'internal_error'];
  // `request/request-body.ts` can end the reading of any body with one of these two.
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
  parameters?: readonly Parameter[];
  requestBody?: RequestBody;
  responses: Record<string, ResponseObject>;
  security: Record<string, string[]>[];
}

/** JSON Schema 2020-12. */
export type JsonSchema = Readonly<Record<string, unknown>>;

export interface Parameter {
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

/** Describes a JSON body. `schema` is a schema or a component's name. */
export function jsonContent(schema: string | JsonSchema, example?: unknown): Record<string, MediaType> {
  const media = { schema: typeof schema === 'string' ? schemaRef(schema) : schema };
  return { 'application/json': example === undefined ? media : { ...media, example } };
}

/** Returns a reference to one of the schemas in `components.ts`. */
export function schemaRef(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

export const pipelineIdParameter: Parameter = {
  name: 'pipeline_id',
  in: 'path',
  required: true,
  description: 'Id of a pipeline of the configuration.',
  schema: { type: 'string' },
  example: 'maps',
};

export const runIdParameter: Parameter = {
  name: 'run_id',
  in: 'path',
  required: true,
  description: 'Id of a run, as it was answered when the run was accepted.',
  schema: { type: 'string' },
  example: 'maps.20261120T020434Z.k3f9q2ab7x',
};
