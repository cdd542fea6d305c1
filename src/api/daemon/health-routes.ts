import type { RequestHandler } from 'express';
import type { JobQueue } from '../../workers/queue/job-queue.ts';
import type { ThreadStats } from '../../workers/threads/pool.ts';
import { requestContext } from '../http/request/request-context.ts';
import { jsonContent, type Route, schemaRef } from '../http/route.ts';
import type { Readiness } from './readiness.ts';

export interface HealthPorts {
  readiness: Readiness;
  queue: JobQueue;
  /** null if no weather database is configured. */
  weatherPulse: { isUp(): boolean } | null;
  /** The queue driver of an API. `memory`, the default, is not reported. */
  queueDriver?: 'memory' | 'embedded' | 'bullmq';
  /** Thread statistics; reported by workers only. */
  threads?: () => ThreadStats;
}

const checks = {
  description: 'What the process depends on, and since when it is as it is.',
  type: 'array',
  items: schemaRef('HealthCheck'),
};

export const healthRoute: Route<HealthPorts> = {
  method: 'get',
  path: '/healthz',
  operationId: 'getHealth',
  tag: 'daemon',
  summary: 'Readiness',
  description:
    'Needs no token. `checks` says of each thing on which the daemon depends how it stands, since when, and what to do; refusals have it, too. `details.weather`, where a weather database is configured, is `degraded` while it is away, and `details.paused` names pipelines that are paused. 503 while the daemon is stopping, its queue cannot be reached or uploads cannot be staged, 507 while there is hardly any room for them.',
  access: 'open',
  isProbe: true,
  responses: {
    200: {
      description: 'The daemon accepts uploads.',
      content: jsonContent({
        type: 'object',
        additionalProperties: false,
        required: ['status', 'checks'],
        properties: {
          status: { const: 'ok' },
          details: {
            description: 'Warnings that do not affect uploads.',
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
          checks,
        },
      }),
    },
  },
  problems: ['shutting_down', 'queue_unavailable', 'staging_unavailable', 'insufficient_storage'],
  handle: (ports) => health(ports),
};

/** The same route under the name that Kubernetes commonly uses. */
export const readyRoute: Route<HealthPorts> = {
  ...healthRoute,
  path: '/readyz',
  operationId: 'getReadiness',
  summary: 'Readiness (alias)',
  description: 'The same as `/healthz`.',
};

function health(ports: HealthPorts): RequestHandler {
  return async (req, res) => {
    const { checks: reports, failure } = await ports.readiness.look();
    if (failure !== null) {
      requestContext(req).problemMembers = { checks: reports };
      throw failure;
    }
    const pauses = await ports.queue.pauses();
    const details = detailsOf(ports, [...pauses.keys()].sort());
    res.json({ status: 'ok', ...(Object.keys(details).length === 0 ? {} : { details }), checks: reports });
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

/** Liveness for supervisors. A process that waits for Redis or a disk must not be restarted for that. */
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
      description: 'The process answers.',
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
