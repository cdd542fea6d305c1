import type { Express } from 'express';
import { createHttpApp } from './http/app.ts';
import { recordRequests } from './metrics/record-request.ts';
import { assetsPage } from './pages/assets-page.ts';
import { landingPage } from './pages/landing-page.ts';
import { servePages } from './pages/page-route.ts';
import type { ApiPorts } from './ports.ts';
import { routes } from './routes.ts';
import { siteOf } from './site-of.ts';

/** The daemon's HTTP application: all routes, request metrics, and the pages. */
export function createApp(ports: ApiPorts): Express {
  const { clock, metrics, board = null } = ports;
  return createHttpApp(routes, ports, {
    observers: metrics === null ? [] : [recordRequests(metrics, clock)],
    pages: [landingPage(siteOf(ports)), servePages([assetsPage], ports), ...(board === null ? [] : [board])],
  });
}
