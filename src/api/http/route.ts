import type { RequestHandler } from 'express';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { RouteAct } from './recorded-acts.ts';
import type { ProblemForm } from './request/request-context.ts';

/**
 * One route. The router and the OpenAPI document both derive from this value. Everything but `handle` and
 * `isPresent` is plain data, so the document can be generated without a daemon. `Ports` lists what its
 * handlers need from the program; each feature declares its own.
 */
export interface Route<Ports> {
  method: RouteMethod;
  /**
   * Uses the parameter names of the document: `/runs/{run_id}`. A handler reads that parameter as
   * `req.params.runId`.
   */
  path: string;
  /** Unique. Client generators use it as the method name. */
  operationId: string;
  tag: RouteTag;
  /** A few words. */
  summary: string;
  description?: string;
  /** `token`: always required. `optional`: required if the configuration says so. */
  access: 'open' | 'token' | 'optional';
  parameters?: readonly Parameter[];
  body?: RequestBody;
  /** Polled by machines: logged at level debug unless it is refused. */
  isProbe?: true;
  /** Its requests start runs. With tracing on, each request gets a span. */
  isTraced?: true;
  /** The act that the audit trail records. Every route needs it, unless its method is GET. */
  audit?: RouteAct;
  /** The successful responses, by status. */
  responses: Readonly<Record<number, ResponseObject>>;
  /** The error codes of this route. Codes that `access` or `body` implies need not be repeated. */
  problems: readonly ErrorCode[];
  /**
   * Chooses the form of refusals from the request's URL and `Accept`. Applies to every method of the path.
   * Default: JSON.
   */
  problemForm?: (url: string, accept: string | undefined) => ProblemForm;
  /** Whether the route is served with this configuration. Default: always. */
  isPresent?: (ports: Ports) => boolean;
  /** Creates the handlers; called once. `served` lists all routes that are served together with this one. */
  handle: (ports: Ports, served: readonly Route<never>[]) => Handler | readonly Handler[];
}

type RouteMethod = 'get' | 'post' | 'patch' | 'delete' | 'options';

/** The groups of the OpenAPI document. */
export type RouteTag = 'uploads' | 'runs' | 'pipelines' | 'scene maps' | 'weather' | 'daemon';

/** A request handler for any path parameters. */
export type Handler = RequestHandler<never>;

/** Every error code that the route can answer with. */
export function problemsOf({
  access,
  body,
  problems,
  audit,
}: Pick<Route<never>, 'access' | 'body' | 'problems' | 'audit'>): ErrorCode[] {
  const always: ErrorCode[] = access === 'open' ? ['internal_error'] : ['unauthorized', 'internal_error'];
  // `request/request-body.ts` can end the reading of any body with these two.
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

/** A JSON body. `schema` is a schema or the name of a component. */
export function jsonContent(schema: string | JsonSchema, example?: unknown): Record<string, MediaType> {
  const media = { schema: typeof schema === 'string' ? schemaRef(schema) : schema };
  return { 'application/json': example === undefined ? media : { ...media, example } };
}

/** A reference to one of the schemas in `components.ts`. */
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
