import type { Request, RequestHandler, Response } from 'express';
import type { Scope } from '../../core/config/schema/schema.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { Cancellation } from '../../workers/queue/job-queue.ts';
import { runUnknown } from '../../workers/queue/refusals.ts';
import type { RunRecord } from '../../workers/queue/run-record.ts';
import { newRunId } from '../../workers/queue/start-run.ts';
import { emptyRequest, requireEmptyRequest } from '../http/json-body.ts';
import { keepAuthorized, requestContext } from '../http/request/request-context.ts';
import { jsonContent, pipelineIdParameter, type Route, runIdParameter } from '../http/route.ts';
import { authorizeConfigured } from '../pipelines/pipeline-access.ts';
import { acceptedResponse, sendAccepted } from './accept-run.ts';
import type { RunPorts } from './ports.ts';

/*
 * Shared code of all requests that act on one run, such as cancel and retry.
 */

export interface RunParams {
  pipelineId: string;
  runId: string;
}

/** The codes that `authorizeRun` throws, except those that the route's access and body imply. */
const actingProblems: readonly ErrorCode[] = [
  'pipeline_not_found',
  'forbidden',
  'token_expired',
  'insufficient_scope',
  'unsupported_media_type',
  'invalid_request',
  'queue_unavailable',
];

/**
 * Checks token, pipeline, query and body of the request, and that the run belongs to the pipeline. Accepts
 * the admin token, or a token of the pipeline with the scope. Throws `run_not_found` and the codes above.
 */
async function authorizeRun(
  req: Request<RunParams>,
  res: Response,
  ports: RunPorts,
  scope: Scope,
): Promise<void> {
  const { pipelineId, runId } = req.params;
  keepAuthorized(req, () => authorizeConfigured(req, res, ports, { id: pipelineId, scope }));
  requestContext(req).fields['run_id'] = runId;
  await requireEmptyRequest(req, res, ports);
  const record = await ports.queue.find(runId);
  if (record?.pipeline_id !== pipelineId) throw runUnknown();
}

export const cancelRunRoute: Route<RunPorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/runs/{run_id}/cancel',
  operationId: 'cancelRun',
  tag: 'runs',
  summary: 'Cancel a run',
  description:
    'A run that waits never begins, one that runs is stopped; both end as `failed` with the error `cancelled`, and what was staged for them is removed. What a stopped publication leaves, the next one of that bundle finishes. May be repeated. Takes a token of the pipeline, or that of `server.admin_token_env`.',
  access: 'token',
  parameters: [pipelineIdParameter, runIdParameter],
  body: emptyRequest,
  responses: {
    200: { description: 'The run is cancelled: its record.', content: jsonContent('RunRecord') },
    202: {
      description: 'The run is being stopped: its record. A publication that is done by then has succeeded.',
      content: jsonContent('RunRecord'),
    },
  },
  problems: [...actingProblems, 'run_not_found', 'run_finished'],
  audit: 'run.cancel',
  handle: (ports) => cancelRun(ports),
};

function cancelRun(ports: RunPorts): RequestHandler<RunParams> {
  return async (req, res) => {
    await authorizeRun(req, res, ports, 'cancel');
    const { outcome, record } = await cancelFor(req.params, ports);
    res.status(outcome === 'stopping' ? 202 : 200).json(record);
  };
}

/** Cancels a run for an authorized caller and reports it to `onCancelled`. Throws as `JobQueue.cancel`. */
export async function cancelFor(
  { pipelineId, runId }: RunParams,
  { queue, onCancelled, log }: Pick<RunPorts, 'queue' | 'onCancelled' | 'log'>,
): Promise<Cancellation> {
  const cancellation = await queue.cancel(runId);
  const { outcome } = cancellation;
  if (outcome === 'forgotten') onCancelled({ pipelineId, runId });
  if (outcome !== 'repeated') log.info({ run_id: runId, pipeline_id: pipelineId }, 'run cancelled');
  return cancellation;
}

export const retryRunRoute: Route<RunPorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/runs/{run_id}/retry',
  operationId: 'retryRun',
  tag: 'runs',
  summary: 'Try a waiting run now',
  description:
    'Starts the next try of a run that failed for a passing cause as soon as a worker is free, instead of at `next_try_at`. A run that waits for its turn or runs stays as it is, so the request may be repeated. A run that has ended is repeated by `…/rerun`. Takes a token of the pipeline, or that of `server.admin_token_env`.',
  access: 'token',
  parameters: [pipelineIdParameter, runIdParameter],
  body: emptyRequest,
  responses: { 200: { description: 'The record of the run.', content: jsonContent('RunRecord') } },
  problems: [...actingProblems, 'run_not_found', 'run_finished'],
  audit: 'run.retry',
  handle: (ports) => retryRun(ports),
};

function retryRun(ports: RunPorts): RequestHandler<RunParams> {
  return async (req, res) => {
    await authorizeRun(req, res, ports, 'run');
    res.json(await retryFor(req.params, ports));
  };
}

/** Retries a run now for an authorized caller. Throws as `JobQueue.retryNow`. */
export async function retryFor(
  { pipelineId, runId }: RunParams,
  { queue, log }: Pick<RunPorts, 'queue' | 'log'>,
): Promise<RunRecord> {
  const record = await queue.retryNow(runId);
  log.info({ run_id: runId, pipeline_id: pipelineId, attempt: record.attempt }, 'run is tried now');
  return record;
}

export const rerunRoute: Route<RunPorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/runs/{run_id}/rerun',
  operationId: 'rerunRun',
  tag: 'runs',
  summary: 'Run once more',
  description:
    'Repeats a run that has ended. The bundle of a run stays staged as long as its record, or as `server.rerun` says, and the new run publishes the very same bytes. Where the pipeline has a source of its own, a run reads it again. `rerun_of` of the new record names the old run. A run is repeated once: asked again, the answer is the same run, and what is repeated next is that one. Takes a token of the pipeline, or that of `server.admin_token_env`.',
  access: 'token',
  isTraced: true,
  parameters: [pipelineIdParameter, runIdParameter],
  body: emptyRequest,
  responses: { 202: acceptedResponse },
  problems: [
    ...actingProblems,
    'run_not_found',
    'run_not_finished',
    'bundle_gone',
    'queue_full',
    'pipeline_full',
    'insufficient_storage',
  ],
  audit: 'run.rerun',
  handle: (ports) => rerun(ports),
};

function rerun(ports: RunPorts): RequestHandler<RunParams> {
  return async (req, res) => {
    const { pipelineId } = req.params;
    await authorizeRun(req, res, ports, 'run');
    const { runId } = req.params;
    const { trace } = requestContext(req);
    const next = newRunId(pipelineId, ports.clock.now());
    const accepted = await ports.queue.rerun(runId, next, trace);
    sendAccepted(req, res, ports.http.basePath, accepted);
  };
}
