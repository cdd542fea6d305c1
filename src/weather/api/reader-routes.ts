import type { HttpPorts } from '../../api/http/app.ts';
import type { Route } from '../../api/http/route.ts';
import { apiPageRoute, openApiRoute } from '../../api/openapi/openapi-routes.ts';
import type { WeatherPorts } from './ports.ts';
import { weatherRoutes } from './weather-routes.ts';

/** The routes of the weather reader alone: its refusals name the document and the page. */
export const readerRoutes: readonly Route<WeatherPorts & Pick<HttpPorts, 'http'>>[] = [
  ...weatherRoutes,
  openApiRoute,
  apiPageRoute,
];
