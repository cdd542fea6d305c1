import type { Express } from 'express';
import type { ApiServices } from './api-services.ts';
import { consolePages } from './console/console.ts';
import { createHttpApp } from './http/http-app.ts';
import type { Route } from './http/route.ts';
import { recordRequests } from './metrics/metrics.ts';
import { assetsPage, landingPage, type PageRoute, servePages } from './pages/page-routes.ts';
import { siteOf } from './pages/site.ts';

/** Creates the daemon's HTTP application: routes, pages, request metrics, landing page and console. */
export function createApp<Ports extends ApiServices>(
  ports: Ports,
  { routes, pages }: { routes: readonly Route<Ports>[]; pages: readonly PageRoute<Ports>[] },
): Express {
  const { clock, metrics, console: settings = null } = ports;
  const site = siteOf(ports);
  return createHttpApp(routes, ports, {
    observers: metrics === null ? [] : [recordRequests(metrics, clock)],
    pages: [
      landingPage(site),
      servePages([assetsPage, ...pages], ports),
      ...(settings === null ? [] : [consolePages(ports, settings, site)]),
    ],
  });
}
