import type { RequestHandler } from 'express';
import type { JobQueue } from '../../workers/queue/job-queue.ts';
import type { ThreadStats } from '../../workers/threads/pool.ts';
import { requestContext } from '../http/request/request-context.ts';
import { jsonContent, type Route, schemaRef } from '../http/route.ts';
import type { Readiness } from './readiness.ts';

export interface HealthPorts {
  queue: JobQueue;
  health: HealthService;
}

export interface HealthService {
  readiness: Readiness;
  /** null if no weather database is configured. */
  weather: { isHealthy(): boolean } | null;
  /** The queue driver that the API uses. The default, `memory`, is left out of the response. */
  queueDriver?: 'memory' | 'embedded' | 'bullmq';
  /** Statistics about worker threads, on hosts that run workers. */
  threads?: () => ThreadStats;
}

const checks = {
  description: 'State of each dependency of the process.',
  type: 'array',
  items: schemaRef('HealthCheck'),
};

export const healthRoute: Route<HealthPorts> = {
  method: 'get',
  path: '/healthz',
  operationId: 'getHealth',
  tag: 'daemon',
  summary: 'Check readiness',
  description:
    'Needs no token. `checks` has the state of each dependency, the time of its last change and a remedy; error responses include it. `details.weather` is `degraded` while a configured weather database is unreachable. `details.paused` lists paused pipelines. 503: the daemon is stopping, its queue is unreachable, or uploads cannot be staged or recorded. 507: there is too little disk space for uploads.',
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
            description: 'Warnings that do not affect readiness.',
            type: 'object',
            additionalProperties: false,
            properties: {
              weather: { enum: ['ok', 'degraded'] },
              paused: {
                description: 'Paused pipelines, if any.',
                type: 'array',
                items: { type: 'string' },
                minItems: 1,
              },
              queue: {
                description: 'Driver of the queue, if it is persistent.',
                enum: ['embedded', 'bullmq'],
              },
            },
          },
          checks,
        },
      }),
    },
  },
  problems: [
    'shutting_down',
    'queue_unavailable',
    'staging_unavailable',
    'audit_unavailable',
    'insufficient_storage',
  ],
  handle: (ports) => health(ports),
};

/** The same check under the name that Kubernetes setups usually expect. */
export const readyRoute: Route<HealthPorts> = {
  ...healthRoute,
  path: '/readyz',
  operationId: 'getReadiness',
  summary: 'Check readiness (alias)',
  description: 'The same as `/healthz`.',
};

function health(ports: HealthPorts): RequestHandler {
  return async (req, res) => {
    const { checks: reports, failure } = await ports.health.readiness.look();
    if (failure !== null) {
      requestContext(req).problemMembers = { checks: reports };
      throw failure;
    }
    const pauses = await ports.queue.pauses();
    const details = detailsOf(ports.health, [...pauses.keys()].sort());
    res.json({ status: 'ok', ...(Object.keys(details).length === 0 ? {} : { details }), checks: reports });
  };
}

function detailsOf(
  { weather, queueDriver = 'memory', threads }: HealthService,
  paused: readonly string[],
): Record<string, unknown> {
  return {
    ...(weather === null ? {} : { weather: weather.isHealthy() ? 'ok' : 'degraded' }),
    ...(queueDriver === 'memory' ? {} : { queue: queueDriver }),
    ...(threads === undefined ? {} : { threads: threads() }),
    ...(paused.length === 0 ? {} : { paused }),
  };
}

/**
 * A liveness probe for supervisors. It does not check Redis or the disks, because restarting the process
 * would not fix them.
 */
export const liveRoute: Route<unknown> = {
  method: 'get',
  path: '/livez',
  operationId: 'getLiveness',
  tag: 'daemon',
  summary: 'Check liveness',
  description:
    'Needs no token. Returns 200 as long as the process responds, also while a dependency is unreachable and during shutdown. Use `/healthz` for readiness.',
  access: 'open',
  isProbe: true,
  responses: {
    200: {
      description: 'The process is alive.',
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
