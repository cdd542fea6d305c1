import type { Request, Response } from 'express';
import type { Scope } from '../../core/config/schema/schema.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import { runUnknown } from '../../workers/queue/refusals.ts';
import { bodyCheck } from '../http/body-check.ts';
import { jsonContent } from '../http/json-content.ts';
import type { JsonSchema, RequestBody } from '../http/openapi-types.ts';
import { queryParameters } from '../http/query-parameters.ts';
import { keepAuthorized } from '../http/request/authority.ts';
import { requestContext } from '../http/request/request-context.ts';
import { authorizePipeline } from './pipeline-access.ts';
import type { RunPorts } from './ports.ts';
import { readSmallJson } from './small-json-body.ts';

/*
 * What all requests have in common that act on one run: cancel it, run it again.
 */

export interface RunParams {
  pipelineId: string;
  runId: string;
}

const noProperties: JsonSchema = { type: 'object', additionalProperties: false, properties: {} };
const checkEmpty = bodyCheck(noProperties, 'send no body or {}');
const noQuery = queryParameters({});

export const emptyRequest: RequestBody = {
  description: 'Nothing, or an empty object.',
  required: false,
  content: jsonContent(noProperties, {}),
};

/** What `authorizeRun` throws, but for what the routes' access and body imply. */
export const actingProblems: readonly ErrorCode[] = [
  'pipeline_not_found',
  'forbidden',
  'token_expired',
  'insufficient_scope',
  'unsupported_media_type',
  'invalid_request',
  'queue_unavailable',
];

/**
 * Checks token, pipeline, query and body of the request, and that the run is one of the pipeline. Takes a
 * token of the pipeline with the scope, or the admin token. Throws `run_not_found` and the codes above.
 */
export async function authorizeRun(
  req: Request<RunParams>,
  res: Response,
  ports: RunPorts,
  scope: Scope,
): Promise<void> {
  const { pipelineId, runId } = req.params;
  const { clock, configured } = ports;
  keepAuthorized(req, () => {
    const { pipelineIds, tokens, adminToken } = configured.get();
    const find = (id: string): string | undefined => (pipelineIds.has(id) ? id : undefined);
    return authorizePipeline(req, res, { tokens, adminToken, clock, id: pipelineId, scope, find });
  });
  requestContext(req).fields['run_id'] = runId;
  noQuery.read(req.url);
  const body = await readSmallJson(req, res, ports);
  if (body !== undefined) checkEmpty(body);
  const record = await ports.queue.find(runId);
  if (record?.pipeline_id !== pipelineId) throw runUnknown();
}
