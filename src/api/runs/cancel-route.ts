import type { RequestHandler } from 'express';
import type { RunRecord } from '../../workers/run-record.ts';
import { runUnknown } from '../../workers/refusals.ts';
import { bodyCheck } from '../http/body-check.ts';
import { jsonContent, pipelineIdParameter, runIdParameter } from '../http/json-content.ts';
import type { JsonSchema } from '../http/openapi-types.ts';
import { queryParameters } from '../http/query-parameters.ts';
import { requestContext } from '../http/request/request-context.ts';
import type { Route } from '../http/route.ts';
import { authorizePipeline } from './pipeline-access.ts';
import type { RunPorts } from './ports.ts';
import { readSmallJson } from './small-json-body.ts';

const cancelRequest: JsonSchema = { type: 'object', additionalProperties: false, properties: {} };
const checkCancelRequest = bodyCheck(cancelRequest, 'send no body or {}');
const noQuery = queryParameters({});

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
  body: {
    description: 'Nothing, or an empty object.',
    required: false,
    content: jsonContent(cancelRequest, {}),
  },
  responses: {
    200: { description: 'The run is cancelled: its record.', content: jsonContent('RunRecord') },
    202: {
      description: 'The run is being stopped: its record. A publication that is done by then has succeeded.',
      content: jsonContent('RunRecord'),
    },
  },
  problems: [
    'pipeline_not_found',
    'forbidden',
    'token_expired',
    'insufficient_scope',
    'run_not_found',
    'run_finished',
    'unsupported_media_type',
    'invalid_request',
    'queue_unavailable',
    'server_busy',
  ],
  handle: (ports) => cancelRun(ports),
};

function cancelRun(ports: RunPorts): RequestHandler<{ pipelineId: string; runId: string }> {
  return async (req, res) => {
    const { pipelineId, runId } = req.params;
    const find = (id: string): string | undefined => (ports.pipelineIds.has(id) ? id : undefined);
    authorizePipeline(req, res, { ...ports, id: pipelineId, scope: 'cancel', find });
    requestContext(req).fields['run_id'] = runId;
    noQuery.read(req.url);
    const body = await readSmallJson(req, res, ports);
    if (body !== undefined) checkCancelRequest(body);
    await runOf(pipelineId, runId, ports);
    const { outcome, record } = await ports.queue.cancel(runId);
    if (outcome === 'forgotten') ports.onCancelled({ pipelineId, runId });
    if (outcome !== 'repeated') ports.log.info({ run_id: runId, pipeline_id: pipelineId }, 'run cancelled');
    res.status(outcome === 'stopping' ? 202 : 200).json(record);
  };
}

/** Throws `run_not_found` if the run is unknown or of another pipeline. */
export async function runOf(pipelineId: string, runId: string, { queue }: RunPorts): Promise<RunRecord> {
  const record = await queue.find(runId);
  if (record?.pipeline_id !== pipelineId) throw runUnknown();
  return record;
}
