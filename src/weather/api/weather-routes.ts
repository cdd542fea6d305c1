import { type Format, negotiateProblem } from '../../api/http/answer/negotiate.ts';
import { sendWithEtag } from '../../api/http/answer/send-with-etag.ts';
import type { ProblemForm } from '../../api/http/request/request-context.ts';
import type { Header, MediaType, ResponseObject, Route } from '../../api/http/route.ts';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import { type FamilyName, weatherFamilies } from '../families.ts';
import { orNull } from '../fields.ts';
import { type WeatherEndpoint, weatherEndpoints, weatherRequest } from './endpoints.ts';
import { collectionSchema, metaSchema, weatherExamples } from './schema-fields.ts';
import type { WeatherPorts } from './service.ts';

const headers: Record<string, Header> = {
  ETag: header('Strong entity tag of the body as it is sent.', true),
  'Cache-Control': header('Lifetime of the response.', true),
  Vary: header('`Accept` and `Accept-Encoding`.', true),
  'Content-Encoding': header('`br` or `gzip`, from 1 KiB on, where the client takes it.', false),
  'Last-Modified': header(
    'Time of the newest record. Absent if the response depends on the current time.',
    false,
  ),
  Link: header('`rel="next"`: the rest of a list that comes in pages.', false),
  Warning: header(
    '`110`: the data is stale. `111`: the database is unreachable, and this is the last good response.',
    false,
  ),
};

const text: MediaType = { schema: { type: 'string' } };
const examples = weatherExamples();

/** The routes of the weather families. They only exist if a database is configured. */
export const weatherRoutes: readonly Route<WeatherPorts>[] = weatherEndpoints.map((endpoint) => ({
  method: 'get',
  path: endpoint.path,
  operationId: endpoint.operationId,
  tag: 'weather',
  summary: endpoint.summary,
  description: endpoint.description,
  access: 'open',
  parameters: endpoint.query.parameters,
  responses: {
    200: success(endpoint),
    304: { description: 'The response has not changed.', headers },
  },
  problems: [
    'invalid_parameter',
    'unsupported_format',
    'database_unavailable',
    'schema_mismatch',
    'template_error',
    ...endpoint.problems,
  ],
  problemForm: problemFormOf,
  isPresent: ({ weather }) => weather !== null,
  handle:
    ({ weather }) =>
    async (req, res) => {
      if (weather === null) throw new TypeError('a weather route without a weather service');
      sendWithEtag(req, res, await weather.answer(endpoint, weatherRequest(req.originalUrl, req.headers)));
    },
}));

/** Chooses the format for an error response from the request's URL and `Accept` header. */
export function problemFormOf(url: string, accept: string | undefined): ProblemForm {
  return negotiateProblem(formatOf(url), accept);
}

/** Returns the `format` parameter, even if the endpoint does not support that format. */
function formatOf(url: string): string | null {
  const begin = url.indexOf('?');
  return begin === -1 ? null : new URLSearchParams(url.slice(begin)).get('format');
}

function header(description: string, required: boolean): Header {
  return { description, required, schema: { type: 'string' } };
}

function success({ summary, family, formats }: WeatherEndpoint): ResponseObject {
  return {
    description: `${summary}. \`data\` is null where there is none.`,
    headers,
    content: Object.fromEntries(formats.flatMap((format) => Object.entries(content(format, family)))),
  };
}

/** Returns the OpenAPI description of the response in one of the formats. */
function content(format: Format, family: FamilyName): Record<string, MediaType> {
  switch (format) {
    case 'json':
      return { 'application/json': { schema: envelopeSchema(family), example: examples[family] } };
    case 'xml':
      return { 'application/xml': text, 'text/xml': text };
    case 'text':
      return { 'text/plain': text };
    case 'geojson':
      return { 'application/geo+json': { schema: collectionSchema } };
    case 'csv':
      return { 'text/csv': text };
  }
}

function envelopeSchema(family: FamilyName): JsonSchema {
  return {
    type: 'object',
    additionalProperties: false,
    required: ['data'],
    properties: { data: orNull<object>(weatherFamilies[family].record), meta: metaSchema },
  };
}
