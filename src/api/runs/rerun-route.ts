import type { RequestHandler } from 'express';
import { newRunId } from '../../workers/queue/start-run.ts';
import { acceptedResponse, sendAccepted } from './accepted-response.ts';
import { actingProblems, authorizeRun, emptyRequest, type RunParams } from './run-access.ts';
import { pipelineIdParameter, runIdParameter } from '../http/json-content.ts';
import type { RunPorts } from './ports.ts';
import { requestContext } from '../http/request/request-context.ts';
import type { Route } from '../http/route.ts';

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
