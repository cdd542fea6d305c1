import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { defaultRetryAfter, statusOf } from '../http/answer/error-status.ts';
import {
  type Header,
  type MediaType,
  type OpenApiDocument,
  type Operation,
  type PathItem,
  problemsOf,
  type ResponseObject,
  type Route,
  type RouteTag,
  schemaRef,
} from '../http/route.ts';
import { productVersion } from '../version.ts';
import { componentSchemas } from './components.ts';
import { reasonOf } from './reasons.ts';

const publishes =
  'Upload a bundle, follow the run that publishes it, and switch releases. All requests and responses are plain HTTP with JSON.';
const readsWeather = 'Serves the latest weather records of a database.';
/** Each paragraph begins with its subject. The API reference shows the paragraphs as a table. */
const rules = `Paths: relative to \`server.http.base_path\`.

Methods: \`HEAD\` works on every path with \`GET\`.

Errors: a problem document (RFC 9457) with a \`code\`.

On every path: 404 \`not_found\`, and 405 \`method_not_allowed\` with \`Allow\`.

For invalid HTTP: 400 \`malformed_request\`, 408 \`request_timeout\`, 417 \`expectation_failed\`, 431 \`headers_too_large\`
or 501 \`unsupported_transfer_coding\`.

Other web pages: those of the origins in \`server.http.cors\` can read every response.`;

const tags: Record<RouteTag, string> = {
  uploads:
    'Send a bundle to a pipeline, in one request or in resumable parts. Each accepted bundle starts a run.',
  runs: 'Follow a run until its bundle is published. Start, cancel, retry and rerun runs.',
  pipelines: 'Pause and resume pipelines. List, compare and switch the releases at a destination.',
  'scene maps': 'Check a session scene map before it is published.',
  weather: 'Read observations, forecasts, alerts, outlooks and places from the weather database.',
  daemon: 'Check the health of the daemon, exchange and reload secrets, read metrics and the audit trail.',
};

const requestIdHeader: Header = {
  description: 'Id of the request, as in the log.',
  required: true,
  schema: { type: 'string', format: 'uuid' },
};

/** Generates the OpenAPI document for these routes. `basePath` begins and ends with `/`. */
export function openApiDocument(routes: readonly Route<never>[], basePath: string): OpenApiDocument {
  const paths: Record<string, PathItem> = {};
  for (const route of routes)
    paths[route.path] = { ...paths[route.path], [route.method]: operationOf(route) };
  const used = new Set(routes.map(({ tag }) => tag));
  return {
    openapi: '3.1.1',
    info: {
      title: 'waybill',
      version: productVersion(),
      // Without routes for runs, this is the standalone weather reader.
      description: `${used.has('runs') ? publishes : readsWeather}\n\n${rules}`,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: basePath === '/' ? '/' : basePath.slice(0, -1) }],
    tags: Object.entries(tags)
      .filter(([name]) => used.has(name as RouteTag))
      .map(([name, about]) => ({ name, description: about })),
    paths,
    components: {
      schemas: componentSchemas(),
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          description:
            'A token of `upload_tokens` or of `POST /v1/token`, or the token of `server.admin_token_env` for routes with the scope `admin`.',
        },
      },
    },
  };
}

function operationOf(route: Route<never>): Operation {
  const { operationId, tag, summary, description, parameters, body } = route;
  const responses: Record<string, ResponseObject> = {};
  for (const [status, response] of Object.entries(route.responses))
    responses[status] = withHeaders(response, { 'X-Request-Id': requestIdHeader });
  for (const [status, codes] of byStatus(problemsOf(route)))
    responses[status] = problemResponse(codes, route);
  return {
    operationId,
    tags: [tag],
    summary,
    description,
    parameters,
    requestBody: body,
    responses,
    security: securityOf(route),
  };
}

/** Returns the alternatives to authenticate, with the scope of each. The empty one needs no token. */
function securityOf({ access, scopes = [] }: Route<never>): Operation['security'] {
  if (access === 'open') return [];
  const accepted = scopes.length === 0 ? [{ token: [] }] : scopes.map((scope) => ({ token: [scope] }));
  return access === 'token' ? accepted : [{}, ...accepted];
}

function byStatus(codes: readonly ErrorCode[]): Map<string, ErrorCode[]> {
  const groups = new Map<string, ErrorCode[]>();
  for (const code of codes.toSorted((a, b) => statusOf[a] - statusOf[b])) {
    const status = String(statusOf[code]);
    groups.set(status, [...(groups.get(status) ?? []), code]);
  }
  return groups;
}

function problemResponse(
  codes: readonly ErrorCode[],
  { method, problemForm, ...route }: Route<never>,
): ResponseObject {
  const schema = { allOf: [schemaRef('Problem')], properties: { code: { enum: codes } } };
  return withHeaders(
    {
      description: codes.map((code) => `\`${code}\`: ${reasonOf(code, route)}`).join('\n\n'),
      content: { 'application/problem+json': { schema }, ...(problemForm === undefined ? {} : otherForms) },
    },
    { 'X-Request-Id': requestIdHeader, ...headersOf(codes, method) },
  );
}

const otherForms: Record<string, MediaType> = {
  'application/problem+xml': { schema: { type: 'string' } },
  'text/plain': { schema: { type: 'string' } },
};

/**
 * Returns the headers that responses with these codes have. A header is required if all of the codes send it,
 * and optional otherwise.
 */
function headersOf(codes: readonly ErrorCode[], method: Route<never>['method']): Record<string, Header> {
  const headers: Record<string, Header> = {};
  const add = (name: string, has: (code: ErrorCode) => boolean, about: Omit<Header, 'required'>): void => {
    if (codes.some(has)) headers[name] = { ...about, required: codes.every(has) };
  };
  add('Retry-After', (code) => defaultRetryAfter[code] !== undefined, {
    description: 'Seconds to wait before a retry.',
    schema: { type: 'integer', minimum: 1 },
  });
  add('WWW-Authenticate', (code) => code === 'unauthorized', {
    description: 'Authentication scheme.',
    schema: { type: 'string' },
  });
  add(method === 'patch' ? 'Accept-Patch' : 'Accept-Post', (code) => code === 'unsupported_media_type', {
    description: 'Media types that this route accepts.',
    schema: { type: 'string' },
  });
  return headers;
}

function withHeaders(response: ResponseObject, headers: Record<string, Header>): ResponseObject {
  return { ...response, headers: { ...headers, ...response.headers } };
}
