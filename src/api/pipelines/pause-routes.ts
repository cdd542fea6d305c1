import type { RequestHandler } from 'express';
import type { Current } from '../../core/lib/current.ts';
import { hasCode } from '../../core/lib/errors.ts';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import type { Pause, PipelineSteering } from '../../workers/queue/job-queue.ts';
import type { RoutePorts } from '../http/http-app.ts';
import { bodyCheck, readSmallJson } from '../http/json-body.ts';
import { queryParameters } from '../http/query-parameters.ts';
import { keepAuthorized } from '../http/request/request-context.ts';
import { jsonContent, pipelineIdParameter, type ResponseObject, type Route } from '../http/route.ts';
import {
  authorizeOperator,
  authorizePause,
  pipelineAccessProblems,
  type RunAccess,
} from './pipeline-access.ts';

/*
 * Lets administrators pause a pipeline, for example to maintain a destination or to look into a problem.
 * Tokens need the `cancel` scope, since a token that may cancel every run of a pipeline may also delay them.
 */

export interface PausePorts extends RoutePorts {
  configured: Current<Pick<RunAccess, 'tokens' | 'publishers' | 'adminToken' | 'pipelineIds'>>;
  queue: PipelineSteering;
}

const maxChars = 200;
/** The reason for a pause has to be a single line of text. */
export const pauseReason = { maxChars, pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$' };
const pauseRequest: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    reason: {
      description: 'Reason, shown with the pipeline and its runs.',
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
  description: 'Current state of the pipeline.',
  content: jsonContent('PipelineState', {
    pipeline_id: 'maps',
    paused: { since: '2026-11-20T02:04:34.120Z', reason: 'the web server is being replaced' },
  }),
};
const problems = [
  ...pipelineAccessProblems,
  'invalid_request',
  'unsupported_media_type',
  'queue_unavailable',
] as const;

export const pausePipelineRoute: Route<PausePorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/pause',
  operationId: 'pausePipeline',
  tag: 'pipelines',
  summary: 'Pause a pipeline',
  description:
    'No run of the pipeline starts while it is paused. Uploads and runs are still accepted and wait; active runs continue. If the pipeline is already paused, the request replaces the reason. With `driver: bullmq`, the pause applies to all hosts and survives restarts. With the queue in memory, it is lost when the daemon stops.',
  access: 'token',
  scopes: ['cancel', 'admin'],
  parameters: [pipelineIdParameter],
  body: {
    description: 'Empty, or a reason.',
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
  summary: 'Resume a pipeline',
  description:
    'Waiting runs start in the order of acceptance. If the pipeline is not paused, nothing changes. A pipeline that a reload removed while it was paused can be resumed, too, for its waiting runs.',
  access: 'token',
  scopes: ['cancel', 'admin'],
  parameters: [pipelineIdParameter],
  body: {
    description: 'Empty, or an empty object.',
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

/** Pauses a pipeline. The caller must already be authorized. Throws `queue_unavailable`. */
export async function pausePipeline(
  pipelineId: string,
  reason: string | null,
  { queue, log }: Pick<PausePorts, 'queue' | 'log'>,
): Promise<Pause> {
  const paused = await queue.pause(pipelineId, reason);
  log.info({ pipeline_id: pipelineId, reason }, 'pipeline paused');
  return paused;
}

/** Resumes a pipeline. The caller must already be authorized. Throws `queue_unavailable`. */
export async function resumePipeline(
  pipelineId: string,
  { queue, log }: Pick<PausePorts, 'queue' | 'log'>,
): Promise<void> {
  const wasPaused = await queue.resume(pipelineId);
  if (wasPaused) log.info({ pipeline_id: pipelineId }, 'pipeline resumed');
}

/** Reports whether a pipeline is paused even though it is no longer configured. */
async function isPaused(pipelineId: string, { queue }: PausePorts): Promise<boolean> {
  return (await queue.pauses()).has(pipelineId);
}

/**
 * Authorizes and validates requests for both routes, and sends their response. `isKnown` decides whether to
 * accept a pipeline that is not configured.
 */
function steer(
  ports: PausePorts & { isKnown?: (pipelineId: string, ports: PausePorts) => Promise<boolean> },
  check: (body: unknown) => void,
  act: (pipelineId: string, body: unknown) => Promise<Pause | null>,
): RequestHandler<{ pipelineId: string }> {
  return async (req, res) => {
    const { pipelineId } = req.params;
    const authorize = (): void => authorizePause(req, res, ports, pipelineId);
    const authorizeRemoved = (): void => authorizeOperator(req, res, ports.configured.get());
    try {
      keepAuthorized(req, authorize);
    } catch (error) {
      if (ports.isKnown === undefined || !hasCode(error, 'pipeline_not_found')) throw error;
      keepAuthorized(req, authorizeRemoved);
      if (!(await ports.isKnown(pipelineId, ports))) throw error;
    }
    noQuery.read(req.url);
    const body = await readSmallJson(req, res, ports);
    if (body !== undefined) check(body);
    res.json({ pipeline_id: pipelineId, paused: await act(pipelineId, body) });
  };
}
