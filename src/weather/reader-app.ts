import type { RequestListener } from 'node:http';
import type { RequestHandler } from 'express';
import { prefersPage } from '../api/http/answer/negotiate.ts';
import { createHttpApp, type HttpPorts } from '../api/http/http-app.ts';
import type { Route } from '../api/http/route.ts';
import type { Metrics } from '../api/metrics/metrics.ts';
import { apiPageRoute, openApiRoute } from '../api/openapi/openapi-routes.ts';
import { assetsPage, servePages } from '../api/pages/page-routes.ts';
import { problemPage } from '../api/pages/send-page.ts';
import { siteOf } from '../api/pages/site.ts';
import { withDirectReads } from './api/direct-reads.ts';
import type { WeatherPorts } from './api/service.ts';
import { weatherRoutes } from './api/weather-routes.ts';
import { weatherPages } from './pages/weather-pages.ts';

/** Creates an application that only serves weather data, with its routes and pages. */
export function createReaderApp(
  ports: WeatherPorts & HttpPorts & { metrics: Metrics | null },
): RequestListener {
  const own = { ...ports, problemPage: problemPage(siteOf(ports)) };
  const pages = [startAtMap(ports), servePages([assetsPage, ...weatherPages(siteOf)], own)];
  return withDirectReads(createHttpApp(readerRoutes, own, { pages }), own);
}

function startAtMap({ http: { basePath } }: HttpPorts): RequestHandler {
  return (req, res, next) => {
    const isRead = req.method === 'GET' || req.method === 'HEAD';
    if (isRead && req.path === basePath && prefersPage(req.headers.accept))
      res.redirect(302, `${basePath}weather/`);
    else next();
  };
}

/**
 * The routes of the standalone weather reader. Error responses refer to the OpenAPI document and its HTML
 * page.
 */
export const readerRoutes: readonly Route<WeatherPorts & Pick<HttpPorts, 'http'>>[] = [
  ...weatherRoutes,
  openApiRoute,
  apiPageRoute,
];
