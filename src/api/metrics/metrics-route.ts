import type { RequestHandler } from 'express';
import type { Current } from '../../core/lib/current.ts';
import { sendCompressed } from '../http/answer/send-compressed.ts';
import { taggedAnswer } from '../http/answer/send-with-etag.ts';
import { challenge, findToken, type KnownToken } from '../http/auth.ts';
import type { Route } from '../http/route.ts';
import type { MetricsText } from './process-metrics.ts';

/** Controls access to the metrics. Replaced on reload. */
export interface MetricsAccess {
  /** The token that `/metrics` requires; null if it is open to everyone. */
  metricsToken: KnownToken | null;
}

export interface MetricsPorts {
  metrics: MetricsText | null;
  configured: Current<MetricsAccess>;
}

/**
 * Serves metrics to Prometheus. By default, this needs no token, like the health check: the daemon listens on
 * the loopback address, and all that metrics reveal is counts and configured ids. If a proxy cannot keep the
 * path private, `server.metrics` can require a token or disable the route.
 */
export const metricsRoute: Route<MetricsPorts> = {
  method: 'get',
  path: '/metrics',
  operationId: 'getMetrics',
  tag: 'daemon',
  summary: 'Get Prometheus metrics',
  description: 'Needs no token unless `server.metrics.token_env` is set.',
  access: 'optional',
  isProbe: true,
  responses: {
    200: { description: 'All metrics.', content: { 'text/plain': { schema: { type: 'string' } } } },
  },
  problems: [],
  isPresent: ({ metrics }) => metrics !== null,
  handle: (ports) => showMetrics(ports),
};

function showMetrics({ metrics, configured }: MetricsPorts): RequestHandler {
  // Requests that arrive during a collection wait for its result.
  let collected: Promise<string> | null = null;
  return async (req, res) => {
    const { metricsToken } = configured.get();
    if (metricsToken !== null)
      challenge(req, res, () => findToken(req.headers.authorization, [metricsToken]));
    if (metrics === null) throw new TypeError('the route is present without metrics');
    const text = await (collected ??= metrics.text().finally(() => (collected = null)));
    await sendCompressed(req, res, taggedAnswer(metrics.contentType, text, { vary: 'Accept-Encoding' }));
  };
}
