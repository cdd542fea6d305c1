import type { RequestHandler } from 'express';
import type { Current } from '../../core/lib/current.ts';
import { hasCode } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { Pause, PipelineSteering } from '../../workers/queue/job-queue.ts';
import type { HttpPorts } from '../http/app.ts';
import { bodyCheck, readSmallJson } from '../http/json-body.ts';
import { queryParameters } from '../http/query-parameters.ts';
import type { MemoryBodyPorts } from '../http/request/request-body.ts';
import { keepAuthorized } from '../http/request/request-context.ts';
import {
  jsonContent,
  type JsonSchema,
  pipelineIdParameter,
  type ResponseObject,
  type Route,
} from '../http/route.ts';
import { authorizeAdmin, authorizeOperator, type RunAccess } from './pipeline-access.ts';

/*
 * Operators can pause a pipeline, for maintenance of a destination or during an investigation. This needs the
 * admin token, because it affects all producers of the pipeline.
 */

export interface PausePorts extends HttpPorts, MemoryBodyPorts {
  http: HttpPorts['http'];
  log: Log;
  configured: Current<Pick<RunAccess, 'tokens' | 'adminToken' | 'pipelineIds'>>;
  queue: PipelineSteering;
}

const maxChars = 200;
/** A reason is one line of text. */
export const pauseReason = { maxChars, pattern: '^[^\\u0000-\\u001f\\u007f]*$' };
const pauseRequest: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    reason: {
      description: 'Shown to whoever lists runs of the pipeline.',
      type: ['string', 'null'],
      minLength: 1,
      maxLength: maxChars,
      pattern: pauseReason.pattern,
    },
  },
};
const checkPauseRequest = bodyCheck(pauseRequest, `send no body, {} or {"reason": "…"}, one line`);
const checkEmpty = bodyCheck({ ...pauseRequest, properties: {} }, 'send no body or {}');
const noQuery = queryParameters({});

const answer: ResponseObject = {
  description: 'How the pipeline is now.',
  content: jsonContent('PipelineState', {
    pipeline_id: 'maps',
    paused: { since: '2026-11-20T02:04:34.120Z', reason: 'the web server is being replaced' },
  }),
};
const problems = [
  'pipeline_not_found',
  'forbidden',
  'invalid_request',
  'unsupported_media_type',
  'queue_unavailable',
] as const;

export const pausePipelineRoute: Route<PausePorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/pause',
  operationId: 'pausePipeline',
  tag: 'pipelines',
  summary: 'Let no run of a pipeline begin',
  description:
    'Needs the token of `server.admin_token_env`. Uploads and runs are accepted and wait, those that run go on. Of a pipeline that is paused it replaces the reason. With `driver: bullmq` it holds for all hosts and survives restarts; the queue in memory forgets it when the daemon ends.',
  access: 'token',
  parameters: [pipelineIdParameter],
  body: {
    description: 'Nothing, or why.',
    required: false,
    content: jsonContent(pauseRequest, { reason: 'the web server is being replaced' }),
  },
  responses: { 200: answer },
  problems,
  audit: 'pipeline.pause',
  handle: (ports) =>
    steer(ports, checkPauseRequest, async (pipelineId, body) => {
      const { reason = null } = (body ?? {}) as { reason?: string | null };
      return pausePipeline(pipelineId, reason, ports);
    }),
};

export const resumePipelineRoute: Route<PausePorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/resume',
  operationId: 'resumePipeline',
  tag: 'pipelines',
  summary: 'Let runs of a pipeline begin again',
  description:
    'Needs the token of `server.admin_token_env`. What waits begins in the order of acceptance. A pipeline that is not paused stays as it is. One that a reload has removed while it was paused can be resumed too, for the runs that still wait.',
  access: 'token',
  parameters: [pipelineIdParameter],
  body: {
    description: 'Nothing, or an empty object.',
    required: false,
    content: jsonContent({ type: 'object' }, {}),
  },
  responses: {
    200: { ...answer, content: jsonContent('PipelineState', { pipeline_id: 'maps', paused: null }) },
  },
  problems,
  audit: 'pipeline.resume',
  handle: (ports) =>
    steer({ ...ports, isKnown: isPaused }, checkEmpty, async (pipelineId) => {
      await resumePipeline(pipelineId, ports);
      return null;
    }),
};

/** Pauses a pipeline for an authorized caller. Throws `queue_unavailable`. */
export async function pausePipeline(
  pipelineId: string,
  reason: string | null,
  { queue, log }: Pick<PausePorts, 'queue' | 'log'>,
): Promise<Pause> {
  const paused = await queue.pause(pipelineId, reason);
  log.info({ pipeline_id: pipelineId, reason }, 'pipeline paused');
  return paused;
}

/** Resumes a pipeline for an authorized caller. Throws `queue_unavailable`. */
export async function resumePipeline(
  pipelineId: string,
  { queue, log }: Pick<PausePorts, 'queue' | 'log'>,
): Promise<void> {
  const wasPaused = await queue.resume(pipelineId);
  if (wasPaused) log.info({ pipeline_id: pipelineId }, 'pipeline resumed');
}

/** Whether a pipeline that is not configured is paused. */
async function isPaused(pipelineId: string, { queue }: PausePorts): Promise<boolean> {
  return (await queue.pauses()).has(pipelineId);
}

/**
 * Checks the requests of both routes and sends their response. `isKnown` decides about a pipeline that is not
 * configured.
 */
function steer(
  ports: PausePorts & { isKnown?: (pipelineId: string, ports: PausePorts) => Promise<boolean> },
  check: (body: unknown) => void,
  act: (pipelineId: string, body: unknown) => Promise<Pause | null>,
): RequestHandler<{ pipelineId: string }> {
  return async (req, res) => {
    const { pipelineId } = req.params;
    const access = ports.configured.get();
    try {
      authorizeAdmin(req, res, { ...access, id: pipelineId });
    } catch (error) {
      if (ports.isKnown === undefined || !hasCode(error, 'pipeline_not_found')) throw error;
      authorizeOperator(req, res, access);
      if (!(await ports.isKnown(pipelineId, ports))) throw error;
    }
    keepAuthorized(req, () => authorizeOperator(req, res, ports.configured.get()));
    noQuery.read(req.url);
    const body = await readSmallJson(req, res, ports);
    if (body !== undefined) check(body);
    res.json({ pipeline_id: pipelineId, paused: await act(pipelineId, body) });
  };
}
