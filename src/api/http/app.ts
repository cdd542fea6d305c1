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
import { refusedHead } from './request/request-head.ts';
import { requestLog } from './request-log.ts';
import type { Route } from './route.ts';
import { createRouter } from './router.ts';

/** The dependencies of every HTTP application, whatever its routes. */
export interface HttpPorts {
  http: ServerConfig['http'];
  clock: Clock;
  log: Log;
  /** Controls which requests are logged. */
  logging: Pick<LogControl, 'requests'>;
  /** Creates the requests' spans. If absent, nothing is traced. */
  tracer?: Tracer;
  /** Where acts are recorded. If absent, nothing is recorded. */
  audit?: AuditTarget | null;
  /** Renders refusals as HTML pages. If absent, browsers get JSON. */
  problemPage?: ProblemPage;
}

/**
 * Creates an application that serves these routes below the base path. It logs every request and answers
 * every error with a problem document. `observers` see every request first, even those that `checkHead`
 * refuses. `pages` are tried before the routes.
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
  if (ports.audit != null) app.use(recordTokenUse(ports.audit, new RecordLimiter(ports.clock)));
  app.use(closeUnread(ports.clock));
  // Pages are only for operators, so CORS does not apply to them.
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
    // The start of the next request cannot be determined reliably.
    res.setHeader('Connection', 'close');
    throw refused;
  };
}

const noSuchRoute: RequestHandler = () => {
  throw new WaybillError('not_found', 'there is nothing under this path', {
    hint: 'GET /docs, under the base path, shows the routes',
  });
};

/** Express recognizes an error handler by its four parameters. */
function answerError(ports: ProblemPorts): ErrorRequestHandler {
  return (error: unknown, req, res, next) => {
    // The path has invalid percent-encoding. The router throws before reaching any route.
    const thrown =
      error instanceof URIError
        ? new WaybillError('not_found', 'the path is not valid percent-encoding')
        : error;
    sendProblem(req, res, thrown, ports).catch(next);
  };
}
