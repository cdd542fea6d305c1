import type { RequestHandler } from 'express';
import { wholeNumber } from '../../core/lib/parameters.ts';
import { jsonContent, runIdParameter } from '../http/json-content.ts';
import { queryParameters } from '../http/query-parameters.ts';
import { keepAuthorized } from '../http/request/authority.ts';
import { findRun, requireRun, tokenOfReader } from './find-run.ts';
import { holdUntilFinished } from './hold-answer.ts';
import type { RunPorts } from './ports.ts';
import type { Route } from '../http/route.ts';
import { sendWithEtag, taggedAnswer } from '../http/answer/send-with-etag.ts';

export const mostSeconds = 60;

const showQuery = queryParameters({
  wait: wholeNumber(0, mostSeconds, 0, {
    description:
      'Holds the answer until the run has finished, at most for so many seconds. The answer is then what it would be without it.',
    example: 30,
  }),
});

type ShowPorts = Pick<RunPorts, 'http' | 'queue' | 'configured' | 'clock' | 'draining'>;

/**
 * One run's record. By default the run id is the capability; `protect_runs` requires a token of the run's
 * pipeline.
 */
export const showRunRoute: Route<ShowPorts> = {
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
    ...showQuery.parameters,
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
  problems: [
    'token_expired',
    'insufficient_scope',
    'invalid_request',
    'run_not_found',
    'forbidden',
    'queue_unavailable',
  ],
  handle: (ports) => showRun(ports),
};

function showRun(ports: ShowPorts): RequestHandler<{ runId: string }> {
  return async (req, res) => {
    const { runId } = req.params;
    const token = tokenOfReader(req, res, ports);
    const { wait: seconds } = showQuery.read(req.url);
    const found = await findRun(token, runId, ports);
    keepAuthorized(req, () => requireRun(tokenOfReader(req, res, ports), found));
    if (found.finished_at === null && seconds > 0) {
      await holdUntilFinished(req, res, { runId, seconds }, ports);
      if (res.destroyed) return;
    }
    const record = seconds > 0 ? await findRun(null, runId, ports) : found;
    sendWithEtag(req, res, taggedAnswer('application/json; charset=utf-8', JSON.stringify(record)));
  };
}
