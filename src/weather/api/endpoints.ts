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
  /** Of an answer that has data. */
  maxAgeSeconds: number;
  itemNames: Readonly<Record<string, string>>;
  /** Those in which it answers. */
  formats: readonly Format[];
  /** Refusals beside those of every endpoint. */
  problems: readonly ErrorCode[];
  query: QueryParameters<{ format: string | null }>;
}

/** One endpoint for each family, in the order in which the document shows them. */
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

/** What has a place has a map, and what is a table has rows. */
function formatsOf(family: WeatherFamily): Format[] {
  return [
    ...commonFormats,
    ...(family.features === undefined ? [] : (['geojson'] as const)),
    ...(family.table === undefined ? [] : (['csv'] as const)),
  ];
}

/**
 * The format of an answer that there is in these. Any text but an empty one: an unknown format is refused by
 * the negotiation, with what is offered.
 */
function formatParameter(formats: readonly Format[]): Parameter<string | null> {
  return {
    description: 'The form of the answer; it beats `Accept`. Without both: json.',
    schema: { type: 'string', enum: formats },
    absent: null,
    expected: `one of ${formats.join(', ')}`,
    parse: (text) => (text === '' ? undefined : text),
  };
}

/** The part of a request that decides its answer. */
export interface WeatherRequest {
  /** With its query. */
  url: string;
  accept: string | undefined;
  acceptEncoding: string | undefined;
}

/** @param url With its query. */
export function weatherRequest(url: string, headers: IncomingHttpHeaders): WeatherRequest {
  const { accept, 'accept-encoding': encodings } = headers;
  return { url, accept, acceptEncoding: Array.isArray(encodings) ? encodings.join() : encodings };
}
