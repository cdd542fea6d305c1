import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express';
import { WaybillError } from '../core/errors.ts';
import { countRequests } from './metrics/record-request.ts';
import type { ApiPorts } from './ports.ts';
import { sendProblem } from './http/problem.ts';
import { requestLog } from './http/request-log.ts';
import { createRouter } from './http/router.ts';
import type { Route } from './http/route.ts';
import { routes } from './routes.ts';

/** The HTTP API over its ports: what every request passes through, and the routes. */
export function createApp(ports: ApiPorts): Express {
  return appOf(routes, ports);
}

/** The same of some routes only, which then need fewer ports. */
export function appOf<Ports extends Pick<ApiPorts, 'http' | 'clock' | 'log' | 'metrics' | 'board'>>(
  served: readonly Route<Ports>[],
  ports: Ports,
): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag');
  app.set('trust proxy', ports.http.trustedProxies);
  app.use(requestLog(ports.log, ports.clock));
  if (ports.metrics !== null) app.use(countRequests(ports.metrics, ports.clock));
  if (ports.board != null) app.use(`${ports.http.basePath}admin/queues`, ports.board);
  app.use(ports.http.basePath, createRouter(served, ports));
  app.use(noSuchRoute);
  app.use(answerError);
  return app;
}

const noSuchRoute: RequestHandler = () => {
  throw new WaybillError('not_found', 'there is nothing under this path', {
    hint: 'GET /docs, under the base path, shows the routes',
  });
};

/** The four arguments are how express knows an error handler. */
const answerError: ErrorRequestHandler = (error: unknown, req, res, next) => {
  // A percent-encoding in the path that decodes to nothing; the router throws it before any route is reached.
  const thrown =
    error instanceof URIError
      ? new WaybillError('not_found', 'the path is not valid percent-encoding')
      : error;
  sendProblem(req, res, thrown).catch(next);
};
