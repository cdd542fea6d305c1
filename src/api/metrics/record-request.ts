import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import type { Clock } from '../../core/clock.ts';
import type { Metrics } from './metrics.ts';
import { requestContext } from '../http/request-context.ts';

const uploadRoute = /^\/v1\/pipelines\/\{pipeline_id\}\/upload(\/|$)/;

/** Counts every request when it is over, and every upload by its outcome. */
export function countRequests(metrics: Pick<Metrics, 'request' | 'upload'>, clock: Clock): RequestHandler {
  return (req, res, next) => {
    countWhenOver(metrics, clock, req, res);
    next();
  };
}

/** Counts one request when it is over. */
export function countWhenOver(
  metrics: Pick<Metrics, 'request' | 'upload'>,
  clock: Clock,
  req: IncomingMessage,
  res: ServerResponse,
): void {
  const began = clock.monotonic();
  res.on('close', () => {
    const { route = null, fields } = requestContext(req);
    const status = res.headersSent ? res.statusCode : null;
    metrics.request({ method: req.method ?? '', route, status, seconds: (clock.monotonic() - began) / 1000 });
    if (route === null || !uploadRoute.test(route) || status === 405) return;
    const result = fields['code'] ?? (res.hasHeader('Idempotency-Replayed') ? 'replayed' : 'accepted');
    const pipelineId = fields['pipeline_id'];
    metrics.upload({
      pipelineId: typeof pipelineId === 'string' ? pipelineId : null,
      result: String(result),
    });
  });
}
