import type { RequestListener } from 'node:http';
import type { RequestHandler } from 'express';
import { createHttpApp, type HttpPorts } from './http/app.ts';
import { prefersPage } from './http/answer/negotiate.ts';
import type { Metrics } from './metrics/metrics.ts';
import { assetsPage, servePages } from './pages/page-routes.ts';
import { problemPage } from './pages/send-page.ts';
import { siteOf } from './pages/site.ts';
import { withDirectReads } from './weather/direct-reads.ts';
import { weatherPages } from './weather/pages/weather-pages.ts';
import type { WeatherPorts } from './weather/ports.ts';
import { readerRoutes } from './weather/reader-routes.ts';

/** The application of the weather reader alone: its routes and its pages. */
export function createReaderApp(
  ports: WeatherPorts & HttpPorts & { metrics: Metrics | null },
): RequestListener {
  const own = { ...ports, problemPage: problemPage(siteOf(ports)) };
  const pages = [startAtMap(ports), servePages([assetsPage, ...weatherPages(siteOf)], own)];
  return withDirectReads(createHttpApp(readerRoutes, own, { pages }), own);
}

/** Whoever comes to the base path with a browser is led to the map. */
function startAtMap({ http: { basePath } }: HttpPorts): RequestHandler {
  return (req, res, next) => {
    const isRead = req.method === 'GET' || req.method === 'HEAD';
    if (isRead && req.path === basePath && prefersPage(req.headers.accept))
      res.redirect(302, `${basePath}weather/`);
    else next();
  };
}
