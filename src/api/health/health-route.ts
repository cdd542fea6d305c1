import type { RequestHandler } from 'express';
import { WaybillError } from '../../core/errors.ts';
import type { StagingArea } from '../../workers/coordinator.ts';
import type { JobQueue } from '../../workers/queue.ts';
import type { ThreadStats } from '../../workers/threads/pool.ts';
import { jsonContent } from '../http/json-content.ts';
import type { Route } from '../http/route.ts';

export interface HealthPorts {
  /** Whether the process is shutting down. */
  isDraining: () => boolean;
  queue: JobQueue;
  staging: StagingArea;
  /** Null if no weather database is configured. */
  weatherPulse: { isUp(): boolean } | null;
  /** Of the queue of an API; a queue in memory is not worth a word. */
  queueDriver?: 'memory' | 'embedded' | 'bullmq';
  /** Shown by a worker, which has nothing else to show. */
  threads?: () => ThreadStats;
}

export const healthRoute: Route<HealthPorts> = {
  method: 'get',
  path: '/healthz',
  operationId: 'getHealth',
  tag: 'daemon',
  summary: 'Readiness',
  description:
    'Needs no token. `details.weather`, where a weather database is configured, is `degraded` while it is away, and `details.paused` names pipelines that are paused. 503 while the daemon is stopping, its queue cannot be reached or uploads cannot be staged, 507 while there is hardly any room for them.',
  access: 'open',
  isProbe: true,
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
            description: 'What is worth knowing though uploads are taken.',
            type: 'object',
            additionalProperties: false,
            properties: {
              weather: { enum: ['ok', 'degraded'] },
              paused: {
                description: 'Pipelines whose runs do not begin, where there are any.',
                type: 'array',
                items: { type: 'string' },
                minItems: 1,
              },
              queue: {
                description: 'The driver of the queue, where runs outlive the process.',
                enum: ['embedded', 'bullmq'],
              },
            },
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
      throw new WaybillError('shutting_down', 'the process is stopping and takes nothing new');
    const { queue, staging } = ports;
    const [pauses] = await Promise.all([queue.pauses(), queue.depth(), staging.check()]);
    const details = detailsOf(ports, [...pauses.keys()].sort());
    res.json(Object.keys(details).length === 0 ? { status: 'ok' } : { status: 'ok', details });
  };
}

function detailsOf(
  { weatherPulse, queueDriver = 'memory', threads }: HealthPorts,
  paused: readonly string[],
): Record<string, unknown> {
  return {
    ...(weatherPulse === null ? {} : { weather: weatherPulse.isUp() ? 'ok' : 'degraded' }),
    ...(queueDriver === 'memory' ? {} : { queue: queueDriver }),
    ...(threads === undefined ? {} : { threads: threads() }),
    ...(paused.length === 0 ? {} : { paused }),
  };
}
