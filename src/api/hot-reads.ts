import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import express, { type Express, type Request, type Response } from 'express';
import { countRequests } from './count-requests.ts';
import type { ApiPorts } from './ports.ts';
import { requestContext } from './request-context.ts';
import { requestLog } from './request-log.ts';
import { sendWeather } from './weather-answer.ts';

/**
 * The application with a short way for weather reads that were answered a moment ago: the same log line, counters and headers, without the
 * routing of express, which is most of what such a read costs. There is nothing to authorize on it.
 */
export function withHotReads(
  app: Express,
  { weather, metrics, log, clock }: Pick<ApiPorts, 'weather' | 'metrics' | 'log' | 'clock'>,
): RequestListener {
  if (weather === null) return app;
  const logged = requestLog(log, clock);
  const counted = metrics === null ? undefined : countRequests(metrics, clock);
  const nothing = (): void => undefined;
  return (req, res) => {
    const answer =
      req.method === 'GET' || req.method === 'HEAD'
        ? weather.hot({ url: req.url ?? '/', accept: req.headers.accept })
        : undefined;
    if (answer === undefined) {
      app(req, res);
      return;
    }
    const known = asExpress(app, req, res);
    logged(known.req, known.res, nothing);
    void counted?.(known.req, known.res, nothing);
    requestContext(req).route = answer.endpoint.path;
    sendWeather(req, res, answer);
  };
}

/** What the log and the counters look at; express itself would change the prototype of both, which is slow. */
function asExpress(app: Express, req: IncomingMessage, res: ServerResponse): { req: Request; res: Response } {
  const asked = { app, headers: req.headers, socket: req.socket, connection: req.socket };
  const ip: unknown = Reflect.get(express.request, 'ip', asked);
  return { req: Object.assign(req, { originalUrl: req.url, ip }) as Request, res: res as Response };
}
