import type { IncomingHttpHeaders } from 'node:http';
import { commonFormats, type Format } from '../../api/http/answer/negotiate.ts';
import { type QueryParameters, queryParameters } from '../../api/http/query-parameters.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { Parameter, ParameterMap } from '../../core/lib/parameters.ts';
import { type FamilyName, familyNames, weatherFamilies } from '../families.ts';
import type { WeatherFamily } from '../family.ts';

/** A family's endpoint, as the API serves it. */
export interface WeatherEndpoint {
  family: FamilyName;
  path: string;
  operationId: string;
  summary: string;
  template: string;
  /** Applies to answers that have data. */
  maxAgeSeconds: number;
  itemNames: Readonly<Record<string, string>>;
  /** The formats that the endpoint offers. */
  formats: readonly Format[];
  /** Error codes in addition to those of every endpoint. */
  problems: readonly ErrorCode[];
  query: QueryParameters<{ format: string | null }>;
}

/** One endpoint per family, in the order of the OpenAPI document. */
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

/** Returns a family's formats. Families with locations offer GeoJSON, and tables offer CSV. */
function formatsOf(family: WeatherFamily): Format[] {
  return [
    ...commonFormats,
    ...(family.features === undefined ? [] : (['geojson'] as const)),
    ...(family.table === undefined ? [] : (['csv'] as const)),
  ];
}

/**
 * Returns the format parameter. It accepts any non-empty text. Content negotiation rejects an unknown format
 * and lists the offered formats.
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
  /** The URL, including the query. */
  url: string;
  accept: string | undefined;
  acceptEncoding: string | undefined;
}

/** @param url The URL, including the query. */
export function weatherRequest(url: string, headers: IncomingHttpHeaders): WeatherRequest {
  const { accept, 'accept-encoding': encodings } = headers;
  return { url, accept, acceptEncoding: Array.isArray(encodings) ? encodings.join() : encodings };
}
