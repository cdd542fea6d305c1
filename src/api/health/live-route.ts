import { jsonContent } from '../http/json-content.ts';
import type { Route } from '../http/route.ts';

/** For whoever restarts what hangs: a process that waits for Redis or a disk must not be killed for it. */
export const liveRoute: Route<unknown> = {
  method: 'get',
  path: '/livez',
  operationId: 'getLiveness',
  tag: 'daemon',
  summary: 'Liveness',
  description:
    'Needs no token. The process answers, whatever it waits for: a restart would mend nothing. 200 while it stops, too; readiness is `/healthz`.',
  access: 'open',
  isProbe: true,
  responses: {
    200: {
      description: 'The process turns.',
      content: jsonContent({
        type: 'object',
        additionalProperties: false,
        required: ['status'],
        properties: { status: { const: 'ok' } },
      }),
    },
  },
  problems: [],
  handle: () => (_req, res) => {
    res.json({ status: 'ok' });
  },
};
