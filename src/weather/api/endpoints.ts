import type { IncomingHttpHeaders } from 'node:http';
import { commonFormats, type Format } from '../../api/http/answer/negotiate.ts';
import { type QueryParameters, queryParameters } from '../../api/http/query-parameters.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { Parameter, ParameterMap } from '../../core/lib/parameters.ts';
import { type FamilyName, familyNames, weatherFamilies } from '../families.ts';
import type { WeatherFamily } from '../family.ts';

export interface WeatherEndpoint {
  family: FamilyName;
  path: string;
  operationId: string;
  summary: string;
  description?: string;
  template: string;
  /** The max-age of responses that have data. */
  maxAgeSeconds: number;
  itemNames: Readonly<Record<string, string>>;
  /** The formats that this endpoint supports. */
  formats: readonly Format[];
  /** Error codes of this endpoint, in addition to those that all endpoints have. */
  problems: readonly ErrorCode[];
  query: QueryParameters<{ format: string | null }>;
}

/** The endpoints in the order of the OpenAPI document, one for each family. */
export const weatherEndpoints: readonly WeatherEndpoint[] = familyNames.map((family) =>
  endpointOf(family, weatherFamilies[family]),
);

function endpointOf(family: FamilyName, declared: WeatherFamily): WeatherEndpoint {
  const { endpoint, template, itemNames } = declared;
  const { path, operationId, summary, description, maxAgeSeconds, rules = [], problems = [] } = endpoint;
  const formats = formatsOf(declared);
  const format = { format: formatParameter(formats) };
  const parameters: ParameterMap & typeof format = { ...endpoint.parameters, ...format };
  const query = queryParameters(parameters, { rules, code: 'invalid_parameter' });
  const served = { path, operationId, summary, description, maxAgeSeconds, problems };
  return { ...served, family, template, itemNames, formats, query };
}

/**
 * Returns the formats for a family. GeoJSON is only available if its records have locations, and CSV if they
 * are tables.
 */
function formatsOf(family: WeatherFamily): Format[] {
  return [
    ...commonFormats,
    ...(family.features === undefined ? [] : (['geojson'] as const)),
    ...(family.table === undefined ? [] : (['csv'] as const)),
  ];
}

/**
 * Creates the `format` parameter. It accepts any non-empty text, because content negotiation rejects unknown
 * formats with an error that lists the supported ones.
 */
function formatParameter(formats: readonly Format[]): Parameter<string | null> {
  return {
    description: 'Format of the response. It takes precedence over `Accept`. Default: json.',
    schema: { type: 'string', enum: formats },
    absent: null,
    expected: `one of ${formats.join(', ')}`,
    parse: (text) => (text === '' ? undefined : text),
  };
}

/** The parts of a request that affect the response. */
export interface WeatherRequest {
  url: string;
  accept: string | undefined;
  acceptEncoding: string | undefined;
}

export function weatherRequest(url: string, headers: IncomingHttpHeaders): WeatherRequest {
  const { accept, 'accept-encoding': encodings } = headers;
  return { url, accept, acceptEncoding: Array.isArray(encodings) ? encodings.join() : encodings };
}
