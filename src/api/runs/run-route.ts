import type { RequestHandler } from 'express';
import { WaybillError } from '../../core/errors.ts';
import { authenticate, challenge } from '../http/auth.ts';
import { jsonContent, runIdParameter } from '../http/json-content.ts';
import type { RunPorts } from './ports.ts';
import { requestContext } from '../http/request/request-context.ts';
import type { Route } from '../http/route.ts';
import { sendWithEtag, taggedAnswer } from '../http/send-with-etag.ts';

/**
 * One run's record. By default the run id is the capability; `protect_runs` requires a token of the run's
 * pipeline.
 */
export const showRunRoute: Route<Pick<RunPorts, 'http' | 'queue' | 'tokens'>> = {
  method: 'get',
  path: '/runs/{run_id}',
  operationId: 'getRun',
  tag: 'runs',
  summary: 'What became of a run',
  description:
    'The run id is all that is needed, unless `server.http.protect_runs` asks for a token of the pipeline. Records are kept for `server.http.retention` after the end of the run.',
  access: 'optional',
  parameters: [
    runIdParameter,
    {
      name: 'If-None-Match',
      in: 'header',
      description: 'The `ETag` of an earlier answer; 304 while nothing has changed since.',
      schema: { type: 'string' },
    },
  ],
  responses: {
    200: {
      description: 'The record.',
      headers: {
        ETag: { description: 'Changes with the record.', required: true, schema: { type: 'string' } },
      },
      content: jsonContent('RunRecord'),
    },
    304: { description: 'The record is as it was.' },
  },
  problems: ['run_not_found', 'forbidden', 'queue_unavailable'],
  handle: (ports) => showRun(ports),
};

function showRun(ports: Pick<RunPorts, 'http' | 'queue' | 'tokens'>): RequestHandler<{ runId: string }> {
  return async (req, res) => {
    const token = ports.http.protectRuns
      ? challenge(req, res, () => authenticate(req.headers.authorization, ports.tokens))
      : undefined;
    if (token !== undefined) requestContext(req).fields['token_id'] = token.id;
    const record = await ports.queue.find(req.params.runId);
    if (record === undefined) {
      throw new WaybillError('run_not_found', 'there is no such run', {
        hint: 'records are kept for server.http.retention, and a restart of the daemon clears them',
      });
    }
    if (token !== undefined && !token.pipelines.has(record.pipeline_id)) {
      throw new WaybillError('forbidden', `the token "${token.id}" is not for the pipeline of this run`);
    }
    sendWithEtag(req, res, taggedAnswer('application/json; charset=utf-8', JSON.stringify(record)));
  };
}
