import type { RequestHandler } from 'express';
import { WaybillError } from '../../core/errors.ts';
import { choice, freeText, wholeNumber } from '../../core/parameters.ts';
import { runStatuses, type RunRecord } from '../../workers/run-record.ts';
import { startRun } from '../../workers/start-run.ts';
import { idempotencyKey, idempotencyKeyParameter } from './idempotency-key.ts';
import { acceptedResponse } from './accepted-response.ts';
import { jsonContent, pipelineIdParameter } from '../http/json-content.ts';
import type { JsonSchema } from '../http/openapi-types.ts';
import { pipelineToken } from './pipeline-access.ts';
import type { ApiPorts } from '../ports.ts';
import { requestContext } from '../http/request-context.ts';
import { bodyCheck } from '../http/body-check.ts';
import { queryParameters } from '../http/query-parameters.ts';
import type { Route } from '../http/route.ts';
import { readSmallJson } from './small-json-body.ts';

/*
 * There is nothing to say about a run yet. `force` never gets in here: it can delete what waybill does not
 * manage, so it belongs to someone at the machine, for one invocation.
 */
const runRequest: JsonSchema = { type: 'object', additionalProperties: false, properties: {} };
const checkRunRequest = bodyCheck(
  runRequest,
  'send no body or {}; to force or to try without writing, call `waybill run` on the command line',
);

/**
 * An operator starts a run of a pipeline that has a source of its own: the same queue, the same records as an
 * upload's.
 */
export const startRunRoute: Route = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/runs',
  operationId: 'startRun',
  tag: 'runs',
  summary: 'Publish what the source of a pipeline holds',
  description:
    'For pipelines whose source is a directory, SFTP or S3, as `waybill run --pipeline` does it. Runs of one pipeline go one after another. It cannot be forced from here.',
  access: 'token',
  parameters: [pipelineIdParameter, idempotencyKeyParameter],
  body: {
    description: 'Nothing, or an empty object.',
    required: false,
    content: jsonContent(runRequest, {}),
  },
  responses: { 202: acceptedResponse },
  problems: [
    'pipeline_not_found',
    'forbidden',
    'pipeline_takes_uploads',
    'invalid_idempotency_key',
    'unsupported_media_type',
    'invalid_request',
    'shutting_down',
    'queue_full',
    'queue_unavailable',
    'idempotency_in_progress',
  ],
  handle: (ports) => handleStartRun(ports),
};

function handleStartRun(ports: ApiPorts): RequestHandler<{ pipelineId: string }> {
  return async (req, res) => {
    const { pipelineId } = req.params;
    const token = pipelineToken(ports, req, res, pipelineId);
    if (!ports.sourcePipelines.has(pipelineId)) {
      throw new WaybillError('pipeline_takes_uploads', `the pipeline "${pipelineId}" has no source to read`, {
        hint: `upload a bundle to ${ports.http.basePath}v1/pipelines/${pipelineId}/upload`,
      });
    }
    const key = idempotencyKey(req);
    const body = await readSmallJson(req, res);
    if (body !== undefined) checkRunRequest(body);
    const idempotency = key === undefined ? {} : { idempotency: { caller: token.id, key } };
    const { record, replayed } = await startRun(ports, { pipelineId, ...idempotency });
    requestContext(req).fields['run_id'] = record.run_id;
    if (replayed) res.setHeader('Idempotency-Replayed', 'true');
    res.status(202).location(`${ports.http.basePath}runs/${encodeURIComponent(record.run_id)}`);
    res.json({ run_id: record.run_id, status: 'accepted' });
  };
}

const listQuery = queryParameters({
  limit: wholeNumber(1, 500, 50, { description: 'Runs on one page.' }),
  status: choice(runStatuses, null, { description: 'Only runs of this status.' }),
  before: freeText(255, {
    description:
      'Only runs that were accepted before this one. A page begun so does not shift when runs are added.',
    example: 'maps.20261120T020434Z.k3f9q2ab7x',
  }),
});
type ListQuery = ReturnType<typeof listQuery.read>;

/** The retained runs of a pipeline of any kind. */
export const listRunsRoute: Route = {
  method: 'get',
  path: '/v1/pipelines/{pipeline_id}/runs',
  operationId: 'listRuns',
  tag: 'runs',
  summary: 'The runs of a pipeline, newest first',
  description: 'Every run whose record is retained, of uploads as well as of operators.',
  access: 'token',
  parameters: [pipelineIdParameter, ...listQuery.parameters],
  responses: { 200: { description: 'One page.', content: jsonContent('RunList') } },
  problems: ['pipeline_not_found', 'forbidden', 'invalid_request', 'run_not_found', 'queue_unavailable'],
  handle: (ports) => listRuns(ports),
};

function listRuns(ports: ApiPorts): RequestHandler<{ pipelineId: string }> {
  return async (req, res) => {
    const { pipelineId } = req.params;
    pipelineToken(ports, req, res, pipelineId);
    const query = listQuery.read(req.url);
    const all = await ports.queue.list(pipelineId);
    const wanted = older(all, query.before).filter(
      ({ status }) => query.status === null || query.status === status,
    );
    const runs = wanted.slice(0, query.limit);
    const last = wanted.length > runs.length ? runs.at(-1) : undefined;
    res.json({
      runs,
      next: last === undefined ? null : nextPage(ports.http.basePath, pipelineId, query, last),
    });
  };
}

function older(runs: readonly RunRecord[], before: string | null): readonly RunRecord[] {
  if (before === null) return runs;
  const at = runs.findIndex(({ run_id }) => run_id === before);
  if (at >= 0) return runs.slice(at + 1);
  throw new WaybillError(
    'run_not_found',
    'the run that `before` names is not one of this pipeline, or has expired',
    {
      hint: 'begin again without `before`',
    },
  );
}

function nextPage(basePath: string, pipelineId: string, query: ListQuery, { run_id }: RunRecord): string {
  const { limit, status } = query;
  const search = new URLSearchParams({ limit: String(limit), ...(status && { status }), before: run_id });
  return `${basePath}v1/pipelines/${encodeURIComponent(pipelineId)}/runs?${search.toString()}`;
}
