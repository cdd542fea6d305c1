import type { IncomingHttpHeaders } from 'node:http';
import { commonFormats, type Format } from '../../api/http/answer/negotiate.ts';
import { type QueryParameters, queryParameters } from '../../api/http/query-parameters.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { Parameter, ParameterMap } from '../../core/lib/parameters.ts';
import { type FamilyName, familyNames, weatherFamilies } from '../families.ts';
import type { WeatherFamily } from '../family.ts';

/** The endpoint of one family, as the API serves it. */
export interface WeatherEndpoint {
  family: FamilyName;
  path: string;
  operationId: string;
  summary: string;
  template: string;
  /** For an answer that has data. */
  maxAgeSeconds: number;
  itemNames: Readonly<Record<string, string>>;
  /** The formats that it offers. */
  formats: readonly Format[];
  /** Error codes in addition to those of every endpoint. */
  problems: readonly ErrorCode[];
  query: QueryParameters<{ format: string | null }>;
}

/** One endpoint for each family, in the order of the OpenAPI document. */
export const weatherEndpoints: readonly WeatherEndpoint[] = familyNames.map((family) =>
  endpointOf(family, weatherFamilies[family]),
);

function endpointOf(family: FamilyName, declared: WeatherFamily): WeatherEndpoint {
  const { endpoint, template, itemNames } = declared;
  const { path, operationId, summary, maxAgeSeconds, rules = [], problems = [] } = endpoint;
  const formats = formatsOf(declared);
  const format = { format: formatParameter(formats) };
  const parameters: ParameterMap & typeof format = { ...endpoint.parameters, ...format };
  const query = queryParameters(parameters, { rules, code: 'invalid_parameter' });
  const served = { path, operationId, summary, maxAgeSeconds, problems };
  return { ...served, family, template, itemNames, formats, query };
}

/** Families with locations offer GeoJSON, and tables offer CSV. */
function formatsOf(family: WeatherFamily): Format[] {
  return [
    ...commonFormats,
    ...(family.features === undefined ? [] : (['geojson'] as const)),
    ...(family.table === undefined ? [] : (['csv'] as const)),
  ];
}

/**
 * Returns the format parameter. It accepts any text that is not empty. Content negotiation refuses an unknown
 * format and lists the formats that are offered.
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

/** The part of a request that determines its answer. */
export interface WeatherRequest {
  /** Includes the query. */
  url: string;
  accept: string | undefined;
  acceptEncoding: string | undefined;
}

/** @param url Includes the query. */
export function weatherRequest(url: string, headers: IncomingHttpHeaders): WeatherRequest {
  const { accept, 'accept-encoding': encodings } = headers;
  return { url, accept, acceptEncoding: Array.isArray(encodings) ? encodings.join() : encodings };
}
