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
  /** Null if no weather database is configured. */
  weatherPulse: { isUp(): boolean } | null;
}

export const healthRoute: Route<HealthPorts> = {
  method: 'get',
  path: '/healthz',
  operationId: 'getHealth',
  tag: 'daemon',
  summary: 'Readiness',
  description:
    'Needs no token. `details.weather`, where a weather database is configured, is `degraded` while it is away. 503 while the daemon is stopping, its queue cannot be reached or uploads cannot be staged, 507 while there is hardly any room for them.',
  access: 'open',
  responses: {
    200: {
      description: 'Uploads are taken.',
      content: jsonContent({
        type: 'object',
        additionalProperties: false,
        required: ['status'],
        properties: {
          status: { const: 'ok' },
          details: {
            description: 'Parts of the daemon without which it still takes uploads.',
            type: 'object',
            additionalProperties: false,
            properties: { weather: { enum: ['ok', 'degraded'] } },
          },
        },
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
    const { weatherPulse } = ports;
    const weather = weatherPulse?.isUp() === true ? 'ok' : 'degraded';
    res.json(weatherPulse === null ? { status: 'ok' } : { status: 'ok', details: { weather } });
  };
}
