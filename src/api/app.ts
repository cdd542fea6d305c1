import type { Express, RequestHandler } from 'express';
import { consolePages } from './console/console.ts';
import { createHttpApp } from './http/app.ts';
import { recordRequests } from './metrics/metrics.ts';
import { assetsPage, landingPage, servePages } from './pages/page-routes.ts';
import type { ApiPorts } from './ports.ts';
import { routes } from './routes.ts';
import { siteOf } from './pages/site.ts';
import { weatherPages } from './weather/pages/weather-pages.ts';

/** The daemon's HTTP application: all routes, request metrics, and the pages. */
export function createApp(ports: ApiPorts): Express {
  const { clock, metrics } = ports;
  return createHttpApp(routes, ports, {
    observers: metrics === null ? [] : [recordRequests(metrics, clock)],
    pages: pagesOf(ports),
  });
}

function pagesOf(ports: ApiPorts): RequestHandler[] {
  const { console: settings = null } = ports;
  const site = siteOf(ports);
  return [
    landingPage(site),
    servePages([assetsPage, ...weatherPages(siteOf)], ports),
    ...(settings === null ? [] : [consolePages(ports, settings, site)]),
  ];
}
