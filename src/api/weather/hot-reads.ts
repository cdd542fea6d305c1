import type { IncomingMessage, RequestListener } from 'node:http';
import express, { type Express } from 'express';
import type { HttpPorts } from '../http/app.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { recordRequest } from '../metrics/record-request.ts';
import type { WeatherPorts } from './ports.ts';
import { weatherRequest } from './weather-request.ts';
import { requestContext } from '../http/request/request-context.ts';
import { hasPendingBody } from '../http/request/drain-request.ts';
import { refusedHead } from '../http/request/refused-head.ts';
import { sendWithEtag } from '../http/answer/send-with-etag.ts';
import { logRequest, type LoggedRequest } from '../http/request-log.ts';
import { crossOrigin } from '../http/answer/cross-origin.ts';

/**
 * The application with a fast path for weather reads that are cached: the same log line, counters and headers
 * without the routing of express, which is most of what such a read costs. Weather needs no authorization.
 */
export function withHotReads(
  app: Express,
  { weather, metrics, http, log, clock, logging }: WeatherPorts & { metrics: Metrics | null } & HttpPorts,
): RequestListener {
  if (weather === null) return app;
  const cors = crossOrigin(http.cors);
  return (req, res) => {
    const answer =
      (req.method === 'GET' || req.method === 'HEAD') && !hasPendingBody(req) && refusedHead(req) === null
        ? weather.hot(weatherRequest(req.url ?? '/', req.headers))
        : undefined;
    if (answer === undefined) {
      app(req, res);
      return;
    }
    requestContext(req).route = answer.endpoint.path;
    logRequest({ log, clock, logging }, asLogged(app, req), res);
    if (metrics !== null) recordRequest(metrics, clock, req, res);
    const send = (): void => sendWithEtag(req, res, answer);
    if (cors === null) send();
    else cors(req, res, send);
  };
}

/** What express would add, without changing the prototype of the request, which is slow. */
function asLogged(app: Express, req: IncomingMessage): LoggedRequest {
  const asked = { app, headers: req.headers, socket: req.socket, connection: req.socket };
  const ip: unknown = Reflect.get(express.request, 'ip', asked);
  return Object.assign(req, { originalUrl: req.url ?? '/', ip: typeof ip === 'string' ? ip : undefined });
}
