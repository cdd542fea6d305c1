import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express';
import type { ServerConfig } from '../../core/config/config.ts';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log, LogControl } from '../../core/lib/log.ts';
import type { Tracer } from '../../core/tracing/span.ts';
import { crossOrigin } from './answer/cross-origin.ts';
import { type ProblemPage, type ProblemPorts, sendProblem } from './answer/problem.ts';
import { dropUnreadBody } from './request/client-connection.ts';
import { refusedHead } from './request/request-head.ts';
import { requestLog } from './request-log.ts';
import type { Route } from './route.ts';
import { createRouter } from './router.ts';

/** What every HTTP application needs, whatever its routes are. */
export interface HttpPorts {
  http: ServerConfig['http'];
  clock: Clock;
  log: Log;
  /** Which requests are logged. */
  logging: Pick<LogControl, 'requests'>;
  /** Makes the spans of requests; without it nothing is traced. */
  tracer?: Tracer;
  /** Makes pages of refusals; without it people get JSON, too. */
  problemPage?: ProblemPage;
}

/**
 * An application that serves these routes below the base path, logs each request and answers each error with
 * a problem document. `observers` see every request first, even one that is refused by its head; `pages` come
 * before the routes.
 */
export function createHttpApp<Ports extends HttpPorts>(
  routes: readonly Route<Ports>[],
  ports: Ports,
  { observers = [], pages = [] }: { observers?: RequestHandler[]; pages?: RequestHandler[] } = {},
): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag');
  app.set('trust proxy', ports.http.trustedProxies);
  app.use(requestLog(ports));
  app.use(closeUnread(ports.clock));
  // Pages are an operator's own: no page of another origin reads them.
  const cors = crossOrigin(ports.http.cors);
  for (const handler of [...observers, checkHead(ports.http), ...pages, ...(cors === null ? [] : [cors])])
    app.use(handler);
  app.use(ports.http.basePath, createRouter(routes, ports));
  app.use(noSuchRoute);
  app.use(answerError(ports));
  return app;
}

function closeUnread(clock: Clock): RequestHandler {
  return (req, res, next) => {
    dropUnreadBody(req, res, clock);
    next();
  };
}

function checkHead({ allowedHosts }: HttpPorts['http']): RequestHandler {
  return (req, res, next) => {
    const refused = refusedHead(req, allowedHosts);
    if (refused === null) {
      next();
      return;
    }
    // Where the next request begins is not to be relied on.
    res.setHeader('Connection', 'close');
    throw refused;
  };
}

const noSuchRoute: RequestHandler = () => {
  throw new WaybillError('not_found', 'there is nothing under this path', {
    hint: 'GET /docs, under the base path, shows the routes',
  });
};

/** Express recognizes an error handler by its four arguments. */
function answerError(ports: ProblemPorts): ErrorRequestHandler {
  return (error: unknown, req, res, next) => {
    // Percent-encoding in the path that cannot be decoded; the router throws before it reaches any route.
    const thrown =
      error instanceof URIError
        ? new WaybillError('not_found', 'the path is not valid percent-encoding')
        : error;
    sendProblem(req, res, thrown, ports).catch(next);
  };
}
