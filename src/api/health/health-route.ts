import type { RequestHandler } from 'express';
import { WaybillError } from '../../core/errors.ts';
import type { StagingArea } from '../../workers/coordinator.ts';
import type { JobQueue } from '../../workers/queue.ts';
import { jsonContent } from '../http/json-content.ts';
import type { Route } from '../http/route.ts';

export interface HealthPorts {
  /** Whether the daemon is shutting down. */
  isDraining: () => boolean;
  queue: JobQueue;
  staging: StagingArea;
}

export const healthRoute: Route<HealthPorts> = {
  method: 'get',
  path: '/healthz',
  operationId: 'getHealth',
  tag: 'daemon',
  summary: 'Readiness',
  description:
    'Needs no token. 503 while the daemon is stopping, its queue cannot be reached or uploads cannot be staged, 507 while there is hardly any room for them.',
  access: 'open',
  responses: {
    200: {
      description: 'Uploads are taken.',
      content: jsonContent({
        type: 'object',
        additionalProperties: false,
        required: ['status'],
        properties: { status: { const: 'ok' } },
      }),
    },
  },
  problems: ['shutting_down', 'queue_unavailable', 'staging_unavailable', 'insufficient_storage'],
  handle: (ports) => health(ports),
};

function health(ports: HealthPorts): RequestHandler {
  return async (_req, res) => {
    if (ports.isDraining())
      throw new WaybillError('shutting_down', 'the daemon is stopping and takes no new uploads');
    await Promise.all([ports.queue.depth(), ports.staging.check()]);
    res.json({ status: 'ok' });
  };
}
