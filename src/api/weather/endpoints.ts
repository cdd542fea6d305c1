import type { ParameterMap } from '../../core/parameters.ts';
import { familyNames, weatherFamilies, type FamilyName } from '../../core/weather/families.ts';
import type { WeatherFamily } from '../../core/weather/family.ts';
import { queryParameters, type QueryParameters } from '../http/query-parameters.ts';
import { formatParameter } from './format-parameter.ts';

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
  query: QueryParameters<{ format: string | null }>;
}

const format = { format: formatParameter };

/** One endpoint for each family, in the order in which the document shows them. */
export const weatherEndpoints: readonly WeatherEndpoint[] = familyNames.map((family) =>
  endpointOf(family, weatherFamilies[family]),
);

function endpointOf(family: FamilyName, { endpoint, template, itemNames }: WeatherFamily): WeatherEndpoint {
  const { path, operationId, summary, maxAgeSeconds, rules = [] } = endpoint;
  const parameters: ParameterMap & typeof format = { ...endpoint.parameters, ...format };
  const query = queryParameters(parameters, { rules, code: 'invalid_parameter' });
  return { family, path, operationId, summary, template, maxAgeSeconds, itemNames, query };
}
