import { type ErrorCode, errorTable } from '../../core/lib/error-codes.ts';
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

const publishes = 'Publishes bundles that producers push, and reports the result.';
const readsWeather = 'Serves the latest weather records of a database.';
const rules = `Paths are relative to \`server.http.base_path\`. Every refusal is a problem document (RFC 9457) with a \`code\`. \`HEAD\` is answered wherever \`GET\` is.

Every path can also answer 404 \`not_found\`, 405 \`method_not_allowed\` with \`Allow\`, and for invalid HTTP 400 \`malformed_request\`, 408 \`request_timeout\`,
417 \`expectation_failed\`, 431 \`headers_too_large\` or 501 \`unsupported_transfer_coding\`.

Pages of the origins in \`server.http.cors\` may read every answer. Their preflights are answered 204.`;

const tags: Record<RouteTag, string> = {
  uploads: 'Bundles from producers.',
  runs: 'Runs of pipelines: start, follow, cancel and rerun.',
  pipelines: 'Pipelines, pauses and releases.',
  'scene maps': 'Session scene maps and their schema.',
  weather: 'Weather reads.',
  daemon: 'The daemon itself.',
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
            'A token of `upload_tokens` or of `POST /v1/token`, or the token of `server.admin_token_env` for routes that accept it.',
        },
      },
    },
  };
}

function operationOf(route: Route<never>): Operation {
  const { operationId, tag, summary, access, parameters, body } = route;
  const responses: Record<string, ResponseObject> = {};
  for (const [status, response] of Object.entries(route.responses))
    responses[status] = withHeaders(response, { 'X-Request-Id': requestIdHeader });
  for (const [status, codes] of byStatus(problemsOf(route)))
    responses[status] = problemResponse(codes, route);
  return {
    operationId,
    tags: [tag],
    summary,
    ...(route.description === undefined ? {} : { description: route.description }),
    ...(parameters === undefined ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: body }),
    responses,
    security: access === 'open' ? [] : access === 'token' ? [{ token: [] }] : [{}, { token: [] }],
  };
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
  { method, problemForm }: Pick<Route<never>, 'method' | 'problemForm'>,
): ResponseObject {
  const schema = { allOf: [schemaRef('Problem')], properties: { code: { enum: codes } } };
  return withHeaders(
    {
      description: codes.map((code) => `\`${code}\`: ${errorTable[code].about}`).join('\n\n'),
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
