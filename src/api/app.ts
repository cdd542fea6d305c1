import type { Express } from 'express';
import { createHttpApp } from './http/app.ts';
import { recordRequests } from './metrics/record-request.ts';
import type { ApiPorts } from './ports.ts';
import { routes } from './routes.ts';

/** The daemon's HTTP application: all routes, request metrics, and the queue board if there is one. */
export function createApp(ports: ApiPorts): Express {
  const { clock, metrics, board = null } = ports;
  return createHttpApp(routes, ports, {
    observers: metrics === null ? [] : [recordRequests(metrics, clock)],
    pages: board === null ? [] : [board],
  });
}
