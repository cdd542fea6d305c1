import type { RequestHandler } from 'express';
import type { RunRecord } from '../../workers/queue/run-record.ts';
import { jsonContent, pipelineIdParameter, runIdParameter } from '../http/json-content.ts';
import type { Route } from '../http/route.ts';
import type { RunPorts } from './ports.ts';
import { actingProblems, authorizeRun, emptyRequest, type RunParams } from './run-access.ts';

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
  handle: (ports) => retryRun(ports),
};

function retryRun(ports: RunPorts): RequestHandler<RunParams> {
  return async (req, res) => {
    await authorizeRun(req, res, ports, 'run');
    res.json(await retryFor(req.params, ports));
  };
}

/** Tries a run now for a caller that may. Throws as `JobQueue.retryNow`. */
export async function retryFor(
  { pipelineId, runId }: RunParams,
  { queue, log }: Pick<RunPorts, 'queue' | 'log'>,
): Promise<RunRecord> {
  const record = await queue.retryNow(runId);
  log.info({ run_id: runId, pipeline_id: pipelineId, attempt: record.attempt }, 'run is tried now');
  return record;
}
