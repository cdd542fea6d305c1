import type { RequestHandler } from 'express';
import type { Config, DestinationConfig } from '../../core/config/config.ts';
import type { ScheduleConfig } from '../../core/config/timetable.ts';
import type { Clock } from '../../core/lib/clock.ts';
import type { Current } from '../../core/lib/current.ts';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import type { Layout } from '../../core/releases/release.ts';
import type { JobQueue, LastSuccess, Pause } from '../../workers/queue/job-queue.ts';
import type { RunRecord } from '../../workers/queue/run-record.ts';
import type { Scheduler } from '../../workers/schedule/scheduler.ts';
import { jsonContent, type Route, schemaRef } from '../http/route.ts';
import { pipelinesOf, type RunAccess, tokenOfCaller } from './pipeline-access.ts';

/** A pipeline in the list of pipelines. Does not include paths and hosts. */
export interface PipelineSummary {
  pipeline_id: string;
  source: { backend: string };
  destinations: DestinationSummary[];
  /** null if the pipeline has no schedule. */
  schedule: ScheduleSummary | null;
  /** Whether runs start when the source changes. */
  watch: boolean;
}

export interface ScheduleSummary {
  cron: string;
  timezone: string;
  catch_up: 'none' | 'once';
}

export interface DestinationSummary extends Pick<DestinationConfig, 'mapping' | 'workflow'> {
  destination_id: string;
  backend: string;
  layout: Layout;
  public_base_url: string | null;
  /** Bytes per second; null if unlimited. */
  max_rate: number | null;
}

export function summariesOf({ pipelines }: Pick<Config, 'pipelines'>): PipelineSummary[] {
  return pipelines.map(({ id, source, destinations, schedule, watch }) => ({
    pipeline_id: id,
    source: { backend: source.backend },
    destinations: destinations.map(
      ({ id: destinationId, location, mapping, workflow, releases, publicBaseUrl, maxRate }) => ({
        destination_id: destinationId,
        backend: location.backend,
        mapping,
        workflow,
        layout: releases === null ? 'in_place' : 'releases',
        public_base_url: publicBaseUrl,
        max_rate: maxRate,
      }),
    ),
    schedule: schedule === null ? null : scheduleSummary(schedule),
    watch: watch !== null,
  }));
}

function scheduleSummary({ cron, timezone, catchUp }: ScheduleConfig): ScheduleSummary {
  return { cron, timezone, catch_up: catchUp };
}

/** All configured pipelines, and who may access their runs. Replaced on reload. */
export interface PipelineAccess extends RunAccess {
  /** All pipelines, in configuration order. */
  pipelines: readonly PipelineSummary[];
}

export interface PipelinePorts {
  clock: Clock;
  queue: Pick<JobQueue, 'overview' | 'pauses'>;
  configured: Current<PipelineAccess>;
  scheduler: Pick<Scheduler, 'nextRun'>;
}

const pipelineList: JsonSchema = {
  description: 'Pipelines of a token and their state.',
  type: 'object',
  additionalProperties: false,
  required: ['pipelines'],
  properties: {
    pipelines: {
      type: 'array',
      items: {
        type: 'object',
        additionalProperties: false,
        required: [
          'pipeline_id',
          'source',
          'destinations',
          'schedule',
          'watch',
          'next_run',
          'waiting',
          'paused',
          'running',
          'last_run',
          'last_success',
        ],
        properties: {
          pipeline_id: { type: 'string' },
          source: {
            type: 'object',
            additionalProperties: false,
            required: ['backend'],
            properties: { backend: { type: 'string' } },
          },
          destinations: {
            type: 'array',
            items: {
              type: 'object',
              additionalProperties: false,
              required: [
                'destination_id',
                'backend',
                'mapping',
                'workflow',
                'layout',
                'public_base_url',
                'max_rate',
              ],
              properties: {
                destination_id: { type: 'string' },
                backend: { type: 'string' },
                mapping: { enum: ['preserve_relative', 'fixed'] },
                workflow: { enum: ['additive', 'replacement'] },
                layout: { enum: ['in_place', 'releases'] },
                public_base_url: { type: ['string', 'null'] },
                max_rate: {
                  description:
                    'Maximum rate of published files, in bytes per second, or null if there is no limit.',
                  type: ['integer', 'null'],
                },
              },
            },
          },
          schedule: {
            description: 'null without a schedule.',
            type: ['object', 'null'],
            additionalProperties: false,
            required: ['cron', 'timezone', 'catch_up'],
            properties: {
              cron: { description: 'Cron pattern: five fields, or a name such as @daily.', type: 'string' },
              timezone: { description: 'IANA time zone.', type: 'string' },
              catch_up: { enum: ['none', 'once'] },
            },
          },
          watch: { description: 'Whether a change of the source starts a run.', type: 'boolean' },
          next_run: {
            description:
              'Time of the next scheduled run, including jitter. If the pipeline is paused at that time, the run is skipped.',
            type: ['string', 'null'],
            format: 'date-time',
          },
          waiting: { description: 'Number of waiting runs.', type: 'integer', minimum: 0 },
          paused: schemaRef('Pause'),
          running: { description: 'Id of the active run.', type: ['string', 'null'] },
          last_run: {
            description: 'Record of the most recently accepted run, if it is retained.',
            anyOf: [schemaRef('RunRecord'), { type: 'null' }],
          },
          last_success: {
            description: 'The most recent run that succeeded.',
            type: ['object', 'null'],
            additionalProperties: false,
            required: ['run_id', 'finished_at'],
            properties: {
              run_id: { type: 'string' },
              finished_at: { type: 'string', format: 'date-time' },
            },
          },
        },
      },
    },
  },
};

export const listPipelinesRoute: Route<PipelinePorts> = {
  method: 'get',
  path: '/v1/pipelines',
  operationId: 'listPipelines',
  tag: 'runs',
  summary: 'List pipelines and their state',
  description:
    'Lists the pipelines of the token in the order of the configuration. `last_success` is kept after the record of that run has expired. With the queue in memory, a restart clears it.',
  access: 'token',
  scopes: ['read'],
  responses: { 200: { description: 'All pipelines of the token.', content: jsonContent(pipelineList) } },
  problems: ['token_expired', 'insufficient_scope', 'queue_unavailable'],
  handle: (ports) => listPipelines(ports),
};

function listPipelines(ports: PipelinePorts): RequestHandler {
  return async (req, res) => {
    const allowed = new Set(pipelinesOf(tokenOfCaller(req, res, ports), [], ports));
    const shown = ports.configured.get().pipelines.filter(({ pipeline_id }) => allowed.has(pipeline_id));
    res.json({ pipelines: await pipelineStates(shown, ports) });
  };
}

/** A pipeline and its state, as returned by `GET /v1/pipelines`. */
export interface PipelineState extends PipelineSummary {
  /** In RFC 3339 (UTC). */
  next_run: string | null;
  waiting: number;
  paused: Pause | null;
  running: string | null;
  last_run: RunRecord | null;
  last_success: LastSuccess | null;
}

/** Returns the states of these pipelines, in the same order. Throws `queue_unavailable`. */
export async function pipelineStates(
  pipelines: readonly PipelineSummary[],
  { queue, scheduler }: Pick<PipelinePorts, 'queue' | 'scheduler'>,
): Promise<PipelineState[]> {
  const ids = pipelines.map(({ pipeline_id }) => pipeline_id);
  const [overviews, pauses] = await Promise.all([queue.overview(ids), queue.pauses()]);
  return pipelines.map((summary, index) => ({
    ...summary,
    next_run: scheduler.nextRun(summary.pipeline_id)?.toISOString() ?? null,
    waiting: overviews[index]?.waiting ?? 0,
    paused: pauses.get(summary.pipeline_id) ?? null,
    running: overviews[index]?.running ?? null,
    last_run: overviews[index]?.lastRun ?? null,
    last_success: overviews[index]?.lastSuccess ?? null,
  }));
}
