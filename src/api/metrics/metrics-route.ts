import type { RequestHandler } from 'express';
import { authenticate } from '../http/auth.ts';
import { challenge } from '../http/challenge.ts';
import type { ApiPorts } from '../ports.ts';
import type { Route } from '../http/route.ts';

/**
 * For Prometheus. No token by default, as for readiness: the daemon listens on the loopback address, and what
 * is told are counts by the ids of the configuration. `server.metrics` asks for a token where the proxy
 * cannot keep the path to itself, or takes the route away.
 */
export const metricsRoute: Route = {
  method: 'get',
  path: '/metrics',
  operationId: 'getMetrics',
  tag: 'daemon',
  summary: 'Metrics for Prometheus',
  description: 'Needs no token unless `server.metrics.token_env` is set.',
  access: 'optional',
  responses: {
    200: { description: 'All metrics.', content: { 'text/plain': { schema: { type: 'string' } } } },
  },
  problems: [],
  isPresent: ({ metrics }) => metrics !== null,
  handle: (ports) => showMetrics(ports),
};

function showMetrics({ metrics, metricsToken }: Pick<ApiPorts, 'metrics' | 'metricsToken'>): RequestHandler {
  return async (req, res) => {
    if (metricsToken !== null)
      challenge(req, res, () => authenticate(req.headers.authorization, [metricsToken]));
    if (metrics === null) throw new TypeError('the route is present without metrics');
    const text = await metrics.text();
    res.setHeader('Content-Type', metrics.contentType);
    res.send(text);
  };
}
