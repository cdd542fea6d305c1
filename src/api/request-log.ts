import type { RequestHandler } from 'express';
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { requestContext } from './request-context.ts';

/** Gives each request its id and the headers that every answer has, and writes one line when it is over. */
export function requestLog(log: Log, clock: Clock): RequestHandler {
  return (req, res, next) => {
    const context = requestContext(req);
    const started = clock.monotonic();
    const path = req.originalUrl.split('?', 1)[0];
    res.setHeader('X-Request-Id', context.id);
    res.setHeader('Cache-Control', 'no-store');
    res.setHeader('X-Content-Type-Options', 'nosniff');
    res.on('close', () => {
      const line = {
        request_id: context.id,
        method: req.method,
        path,
        client: req.ip,
        status: res.headersSent ? res.statusCode : null,
        ms: Math.round(clock.monotonic() - started),
        ...context.fields,
      };
      if (context.failure !== undefined && res.headersSent)
        log.error({ ...line, err: context.failure }, 'request failed');
      else log.info(line, res.writableFinished ? 'request' : 'request left by the client');
    });
    next();
  };
}
