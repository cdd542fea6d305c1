import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import type { Clock } from '../../core/lib/clock.ts';
import { requestContext } from '../http/request/request-context.ts';
import type { Metrics } from './metrics.ts';

const uploadRoute = /^\/v1\/pipelines\/\{pipeline_id\}\/upload(\/|$)/;

/** Records every request and every upload when its response has closed. */
export function recordRequests(metrics: Pick<Metrics, 'request' | 'upload'>, clock: Clock): RequestHandler {
  return (req, res, next) => {
    recordRequest(metrics, clock, req, res);
    next();
  };
}

/** Records one request, and the outcome if it is an upload, when its response has closed. */
export function recordRequest(
  metrics: Pick<Metrics, 'request' | 'upload'>,
  clock: Clock,
  req: IncomingMessage,
  res: ServerResponse,
): void {
  const started = clock.monotonic();
  res.on('close', () => {
    const { route = null, fields, acceptedAt, finishesUpload = false } = requestContext(req);
    const status = res.headersSent ? res.statusCode : null;
    const now = clock.monotonic();
    const seconds = (now - started) / 1000;
    const sinceAccept = acceptedAt === undefined ? {} : { sinceAccept: (now - acceptedAt) / 1000 };
    metrics.request({ method: req.method ?? '', route, status, seconds, ...sinceAccept });
    if (route === null || !(uploadRoute.test(route) || finishesUpload) || status === 405) return;
    const taken =
      status === 200 ? 'planned' : res.hasHeader('Idempotency-Replayed') ? 'replayed' : 'accepted';
    const result = fields['code'] ?? taken;
    const pipelineId = fields['pipeline_id'];
    metrics.upload({
      pipelineId: typeof pipelineId === 'string' ? pipelineId : null,
      result: String(result),
    });
  });
}
