import type { RequestHandler } from 'express';
import { WaybillError } from '../../core/lib/errors.ts';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import { startRun } from '../../workers/queue/start-run.ts';
import { bodyCheck, readSmallJson } from '../http/json-body.ts';
import { queryParameters } from '../http/query-parameters.ts';
import { keepAuthorized, originOf } from '../http/request/request-context.ts';
import { jsonContent, pipelineIdParameter, type Route } from '../http/route.ts';
import { authorizeConfigured, pipelineAccessProblems } from '../pipelines/pipeline-access.ts';
import {
  acceptedResponse,
  channelQuery,
  idempotencyKeyParameter,
  idempotencyOf,
  requireChannel,
  rerunFailed,
  sendAccepted,
} from './accept-run.ts';
import type { RunPorts } from './run-service.ts';

/*
 * There is no `force` option on purpose. Forcing can delete files that waybill does not manage, so that is
 * only possible on the command line, for one run at a time.
 */
const runRequest: JsonSchema = { type: 'object', additionalProperties: false, properties: {} };
const checkRunRequest = bodyCheck(
  runRequest,
  'send no body or {}; use waybill run --force or --dry-run on the command line',
);

const startQuery = queryParameters({ rerun_failed: rerunFailed, channel: channelQuery });

/**
 * Starts a run of a pipeline with a source. It goes through the same queue as uploads and gets the same kind
 * of record.
 */
export const startRunRoute: Route<RunPorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/runs',
  operationId: 'startRun',
  tag: 'runs',
  summary: 'Start a run of a pipeline',
  description:
    'Publishes the source of a pipeline with a local, SFTP or S3 source, like `waybill run --pipeline`. Runs of one pipeline run one at a time. `--force` is not available here.',
  access: 'token',
  scopes: ['run'],
  isTraced: true,
  parameters: [pipelineIdParameter, ...startQuery.parameters, idempotencyKeyParameter],
  body: {
    description: 'Empty, or an empty object.',
    required: false,
    content: jsonContent(runRequest, {}),
  },
  responses: { 202: acceptedResponse },
  problems: [
    ...pipelineAccessProblems,
    'pipeline_takes_uploads',
    'channel_not_found',
    'invalid_idempotency_key',
    'unsupported_media_type',
    'invalid_request',
    'queue_full',
    'pipeline_full',
    'queue_unavailable',
    'idempotency_in_progress',
  ],
  audit: 'run.start',
  handle: (ports) => handleStartRun(ports),
};

function handleStartRun(ports: RunPorts): RequestHandler<{ pipelineId: string }> {
  return async (req, res) => {
    const { pipelineId } = req.params;
    const token = keepAuthorized(req, () =>
      authorizeConfigured(req, res, ports, { id: pipelineId, scope: 'run', admitsAdmin: false }),
    );
    const channels = ports.configured.get().sourcePipelines.get(pipelineId);
    if (channels === undefined) {
      throw new WaybillError('pipeline_takes_uploads', `the pipeline "${pipelineId}" has no source to read`, {
        hint: `upload a bundle to it: POST v1/pipelines/${pipelineId}/upload`,
      });
    }
    const query = startQuery.read(req.url);
    const { channel } = query;
    if (channel !== null) requireChannel({ id: pipelineId, channels }, channel);
    const idempotency = idempotencyOf(req, { caller: token.id, rerunFailed: query.rerun_failed });
    const body = await readSmallJson(req, res, ports);
    if (body !== undefined) checkRunRequest(body);
    const accepted = await startRun(ports, { pipelineId, channel, ...idempotency }, originOf(req));
    sendAccepted(req, res, ports.http.basePath, accepted);
  };
}
