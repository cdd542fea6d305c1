import type { Request, RequestHandler, Response } from 'express';
import type { Scope } from '../../core/config/schema/schema.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import type { Cancellation } from '../../workers/queue/job-queue.ts';
import { runUnknown } from '../../workers/queue/refusals.ts';
import type { RunRecord } from '../../workers/queue/run-record.ts';
import { newRunId } from '../../workers/queue/start-run.ts';
import { emptyRequest, requireEmptyRequest } from '../http/json-body.ts';
import { keepAuthorized, originOf, requestContext } from '../http/request/request-context.ts';
import { jsonContent, pipelineIdParameter, type Route, runIdParameter } from '../http/route.ts';
import { authorizeConfigured, pipelineAccessProblems } from '../pipelines/pipeline-access.ts';
import { acceptedResponse, sendAccepted } from './accept-run.ts';
import type { RunPorts } from './run-service.ts';

/* Shared code for the routes that act on a single run, such as cancel and retry. */

export interface RunParams {
  pipelineId: string;
  runId: string;
}

/**
 * The codes that `authorizeRun` throws, apart from those that the route's `access` and `body` already imply.
 */
const actingProblems: readonly ErrorCode[] = [
  ...pipelineAccessProblems,
  'unsupported_media_type',
  'invalid_request',
  'queue_unavailable',
];

/**
 * Authorizes a request to act on a run and validates its query and body. Accepts the admin token, or a token
 * of the pipeline that has the scope. Throws the codes above, or `run_not_found` if the run belongs to a
 * different pipeline.
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
    'A waiting run never starts; an active run is stopped. Both end as `failed` with the error `cancelled`, and their staged files are removed. The next publication of that bundle completes an interrupted one. The request can be repeated.',
  access: 'token',
  scopes: ['cancel', 'admin'],
  parameters: [pipelineIdParameter, runIdParameter],
  body: emptyRequest,
  responses: {
    200: { description: 'The run is cancelled: its record.', content: jsonContent('RunRecord') },
    202: {
      description:
        'The run is being stopped: its record. A publication that is already complete counts as succeeded.',
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

/**
 * Cancels a run and reports it to `onCancelled`. The caller must already be authorized. Throws the same
 * errors as `JobQueue.cancel`.
 */
export async function cancelFor(
  { pipelineId, runId }: RunParams,
  { queue, runs, log }: Pick<RunPorts, 'queue' | 'runs' | 'log'>,
): Promise<Cancellation> {
  const cancellation = await queue.cancel(runId);
  const { outcome } = cancellation;
  if (outcome === 'forgotten') runs.onCancelled({ pipelineId, runId });
  if (outcome !== 'repeated') log.info({ run_id: runId, pipeline_id: pipelineId }, 'run cancelled');
  return cancellation;
}

export const retryRunRoute: Route<RunPorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/runs/{run_id}/retry',
  operationId: 'retryRun',
  tag: 'runs',
  summary: 'Retry a waiting run now',
  description:
    'Starts the next attempt of a run that failed for a temporary cause as soon as a worker is free, instead of at `next_try_at`. A run that is queued or active is not changed, so the request can be repeated. Use `…/rerun` for a finished run.',
  access: 'token',
  scopes: ['run', 'admin'],
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

/**
 * Retries a run without waiting any longer. The caller must already be authorized. Throws the same errors as
 * `JobQueue.retryNow`.
 */
export async function retryFor(
  { pipelineId, runId }: RunParams,
  { queue, log }: Pick<RunPorts, 'queue' | 'log'>,
): Promise<RunRecord> {
  const record = await queue.retryNow(runId);
  log.info({ run_id: runId, pipeline_id: pipelineId, attempt: record.attempt }, 'run is retried now');
  return record;
}

export const rerunRoute: Route<RunPorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/runs/{run_id}/rerun',
  operationId: 'rerunRun',
  tag: 'runs',
  summary: 'Rerun a finished run',
  description:
    'Starts a new run with the same staged bundle, which is kept as long as the record or as `server.rerun` specifies. If the pipeline has a source other than http_upload, the new run reads the source. `rerun_of` of the new record is the id of the old run. A run is repeated once: a second request gets the same new run. To repeat again, rerun the new run.',
  access: 'token',
  scopes: ['run', 'admin'],
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
    const next = newRunId(pipelineId, ports.clock.now());
    const accepted = await ports.queue.rerun(runId, next, originOf(req));
    sendAccepted(req, res, ports.http.basePath, accepted);
  };
}
