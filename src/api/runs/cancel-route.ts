import type { RequestHandler } from 'express';
import type { Cancellation } from '../../workers/queue/job-queue.ts';
import { jsonContent, pipelineIdParameter, runIdParameter } from '../http/json-content.ts';
import type { Route } from '../http/route.ts';
import type { RunPorts } from './ports.ts';
import { actingProblems, authorizeRun, emptyRequest, type RunParams } from './run-access.ts';

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
  handle: (ports) => cancelRun(ports),
};

function cancelRun(ports: RunPorts): RequestHandler<RunParams> {
  return async (req, res) => {
    await authorizeRun(req, res, ports, 'cancel');
    const { outcome, record } = await cancelFor(req.params, ports);
    res.status(outcome === 'stopping' ? 202 : 200).json(record);
  };
}

/** Cancels a run for somebody who may, and tells whoever has to know. Throws as `JobQueue.cancel`. */
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
