import type { Express } from 'express';
import type { Config } from '../core/config/config.ts';
import { type HealthPorts, healthRoute, liveRoute, readyRoute } from './daemon/health-routes.ts';
import { createHttpApp, type HttpPorts } from './http/http-app.ts';
import type { Route } from './http/route.ts';
import { type MetricsPorts, metricsRoute } from './metrics/metrics-route.ts';

export interface WorkerAppPorts extends HttpPorts, MetricsPorts, HealthPorts {}

/** The routes of a separate worker, which serves only health checks and metrics. */
const workerRoutes: readonly Route<WorkerAppPorts>[] = [healthRoute, readyRoute, liveRoute, metricsRoute];

export function createWorkerApp(ports: WorkerAppPorts): Express {
  return createHttpApp(workerRoutes, ports);
}

/**
 * Returns the HTTP settings for a separate worker. They are the same as the API's, except that it is served
 * at the root path and without a proxy.
 */
export function workerHttp({ server }: Config, listen: { host: string; port: number }): HttpPorts['http'] {
  return { ...server.http, ...listen, basePath: '/', trustedProxies: [], allowedHosts: null, cors: null };
}
