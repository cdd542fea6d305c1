import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Express } from 'express';
import express from 'express';
import { crossOrigin } from '../../api/http/answer/cross-origin.ts';
import { sendProblem } from '../../api/http/answer/problem.ts';
import { sendWithEtag } from '../../api/http/answer/send-with-etag.ts';
import type { HttpPorts } from '../../api/http/http-app.ts';
import { hasPendingBody } from '../../api/http/request/client-connection.ts';
import { requestContext } from '../../api/http/request/request-context.ts';
import { refusedHead } from '../../api/http/request/request-head.ts';
import { clientOf, logRequest, setCommonHeaders } from '../../api/http/request-log.ts';
import { type Metrics, recordRequest } from '../../api/metrics/metrics.ts';
import { type WeatherEndpoint, weatherEndpoints, weatherRequest } from './endpoints.ts';
import type { WeatherAnswer, WeatherPorts } from './service.ts';
import { problemFormOf } from './weather-routes.ts';

/**
 * Adds a fast path for weather requests. Its responses, log lines and metrics are the same, but it bypasses
 * Express's routing, which takes most of the time of a cached response. It can do so because weather needs no
 * authorization. Anything that Express might handle differently still goes through Express, such as different
 * capitalization, a trailing slash, a body, an invalid header, or another method.
 */
export function withDirectReads(
  app: Express,
  ports: WeatherPorts & { metrics: Metrics | null } & HttpPorts,
): RequestListener {
  const { weather, metrics, http, log, clock, logging } = ports;
  if (weather === null) return app;
  const cors = crossOrigin(http.cors);
  const endpoints = endpointsBelow(http.basePath);
  const logPorts = { log, clock, logging };

  const observe = (req: IncomingMessage, res: ServerResponse, route: string): void => {
    requestContext(req).route = route;
    logRequest(logPorts, { req, url: req.url ?? '/', client: clientBehind(app, req) }, res);
    if (metrics !== null) recordRequest(metrics, clock, req, res);
  };
  const send = (req: IncomingMessage, res: ServerResponse, answer: WeatherAnswer): void => {
    if (cors === null) sendWithEtag(req, res, answer);
    else cors(req, res, () => sendWithEtag(req, res, answer));
  };
  const refuse = (req: IncomingMessage, res: ServerResponse, thrown: unknown): void => {
    requestContext(req).problemForm = problemFormOf(req.url ?? '/', req.headers.accept);
    setCommonHeaders(req, res);
    const answer = (): void => {
      sendProblem(req, res, thrown, ports).catch(() => res.destroy());
    };
    if (cors === null) answer();
    else cors(req, res, answer);
  };

  return (req, res) => {
    const isRead = req.method === 'GET' || req.method === 'HEAD';
    if (!isRead || hasPendingBody(req) || refusedHead(req, http.allowedHosts) !== null) {
      app(req, res);
      return;
    }
    const request = weatherRequest(req.url ?? '/', req.headers);
    const kept = weather.hot(request);
    if (kept !== undefined) {
      observe(req, res, kept.endpoint.path);
      send(req, res, kept);
      return;
    }
    const endpoint = endpoints.get(pathOf(request.url));
    if (endpoint === undefined) {
      app(req, res);
      return;
    }
    observe(req, res, endpoint.path);
    weather
      .answer(endpoint, request)
      .then((answer) => send(req, res, answer))
      .catch((error: unknown) => refuse(req, res, error));
  };
}

/** Returns the endpoints by full path. Paths with parameters are left to Express. */
function endpointsBelow(basePath: string): ReadonlyMap<string, WeatherEndpoint> {
  const base = basePath === '/' ? '' : basePath;
  const plain = weatherEndpoints.filter(({ path }) => !path.includes('{'));
  return new Map(plain.map((endpoint) => [base + endpoint.path, endpoint]));
}

function pathOf(url: string): string {
  const end = url.indexOf('?');
  return end === -1 ? url : url.slice(0, end);
}

/**
 * Returns the same client address as Express would. Without a proxy header, this skips the expensive lookup.
 */
function clientBehind(app: Express, req: IncomingMessage): string | null {
  const { headers, socket } = req;
  if (headers['x-forwarded-for'] === undefined) return socket.remoteAddress ?? null;
  const ip: unknown = Reflect.get(express.request, 'ip', { app, headers, socket, connection: socket });
  return clientOf({ ip: typeof ip === 'string' ? ip : undefined, socket });
}
