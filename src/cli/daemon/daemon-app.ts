import type { ApiServices } from '../../api/api-services.ts';
import { createApp } from '../../api/app.ts';
import type { Route } from '../../api/http/route.ts';
import { siteOf } from '../../api/pages/site.ts';
import { routesWith } from '../../api/routes.ts';
import type { WeatherPorts } from '../../weather/api/service.ts';
import { weatherRoutes } from '../../weather/api/weather-routes.ts';
import { weatherPages } from '../../weather/pages/weather-pages.ts';

/** The dependencies of all routes, for both the API and the weather. */
export type DaemonServices = ApiServices & WeatherPorts;

/** All routes of the daemon, in the order of the OpenAPI document. */
export const daemonRoutes: readonly Route<DaemonServices>[] = routesWith(weatherRoutes);

/** Creates the HTTP application of the daemon: the API, the console, and the weather. */
export function createDaemonApp(ports: DaemonServices): ReturnType<typeof createApp> {
  return createApp(ports, { routes: daemonRoutes, pages: weatherPages(siteOf) });
}
