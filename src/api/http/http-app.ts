import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express';
import type { ServerConfig } from '../../core/config/config.ts';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log, LogControl } from '../../core/lib/log.ts';
import type { Tracer } from '../../core/tracing/span.ts';
import { crossOrigin } from './answer/cross-origin.ts';
import { type ProblemPage, type ProblemPorts, sendProblem } from './answer/problem.ts';
import { type AuditTarget, RecordLimiter, recordTokenUse } from './recorded-acts.ts';
import { dropUnreadBody } from './request/client-connection.ts';
import type { MemoryBodyPorts } from './request/request-body.ts';
import { refusedHead } from './request/request-head.ts';
import { requestLog } from './request-log.ts';
import type { Route } from './route.ts';
import { createRouter } from './router.ts';

/** The dependencies that all HTTP applications share, regardless of their routes. */
export interface HttpPorts {
  http: ServerConfig['http'];
  clock: Clock;
  log: Log;
  logging: Pick<LogControl, 'requests'>;
  /** Creates a span for each request. If absent, there is no tracing. */
  tracer?: Tracer;
  /** The audit trail to write to. If absent, nothing is recorded. */
  audit?: AuditTarget | null;
  /** Renders errors as HTML pages. If absent, browsers get JSON. */
  problemPage?: ProblemPage;
}

/** The dependencies of routes that read a small body into memory. */
export interface RoutePorts extends HttpPorts, MemoryBodyPorts {
  http: HttpPorts['http'];
}

/**
 * Creates an application that serves these routes below the base path. Logs every request, and responds to
 * every error with a problem document. `observers` run first and even see requests that `checkHead` rejects.
 * `pages` are matched before the routes.
 */
export function createHttpApp<Ports extends HttpPorts>(
  routes: readonly Route<Ports>[],
  ports: Ports,
  { observers = [], pages = [] }: { observers?: RequestHandler[]; pages?: RequestHandler[] } = {},
): Express {
  const app = express();
  // A proxy may allow or refuse paths, and compares them as they are.
  app.disable('x-powered-by').disable('etag').enable('case sensitive routing');
  app.set('trust proxy', ports.http.trustedProxies);
  // If an error cannot be answered, Express answers it, in other environments with the stack.
  app.set('env', 'production');
  app.use(requestLog(ports));
  if (ports.audit != null) app.use(recordTokenUse(ports.audit, new RecordLimiter(ports.clock)));
  app.use(closeUnread(ports.clock));
  // Only administrators use the pages, so they get no CORS headers.
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
    // It is unclear where the next request on this connection would begin.
    res.setHeader('Connection', 'close');
    throw refused;
  };
}

const noSuchRoute: RequestHandler = () => {
  throw new WaybillError('not_found', 'there is nothing under this path', {
    hint: 'GET /docs, under the base path, shows the routes',
  });
};

/** Express only recognizes an error handler by its four parameters. */
function answerError(ports: ProblemPorts): ErrorRequestHandler {
  return (error: unknown, req, res, next) => {
    // The path contains invalid percent-encoding, so the router threw before it reached a route.
    const thrown =
      error instanceof URIError
        ? new WaybillError('not_found', 'the path is not valid percent-encoding')
        : error;
    sendProblem(req, res, thrown, ports).catch(next);
  };
}
