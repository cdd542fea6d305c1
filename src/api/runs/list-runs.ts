import type { RequestHandler } from 'express';
import { choice, freeText, names, periodBound, wholeNumber } from '../../core/lib/parameters.ts';
import { type RunRecord, runStatuses } from '../../workers/queue/run-record.ts';
import { sendJson } from '../http/answer/send-compressed.ts';
import { queryParameters } from '../http/query-parameters.ts';
import { jsonContent, pipelineIdParameter, type Route } from '../http/route.ts';
import {
  authorizeConfigured,
  pipelineAccessProblems,
  pipelinesOf,
  tokenOfCaller,
} from '../pipelines/pipeline-access.ts';
import type { RunPorts } from './run-service.ts';

const maxIdChars = 255;

/** The paging parameters that all lists of runs have in common. */
export const pageParameters = {
  limit: wholeNumber(1, 500, 50, { description: 'Number of runs per page.' }),
  status: choice(runStatuses, null, { description: 'Lists only runs with this status.' }),
  before: freeText(maxIdChars, {
    description:
      'Lists only runs that were accepted before this one, so pages do not shift when runs are added. Use the value from the link to the next page.',
    example: 'maps.20261120T020434Z.k3f9q2ab7x',
  }),
};

/** The error codes that all lists of runs have in common. */
export const listProblems: Route<RunPorts>['problems'] = [
  ...pipelineAccessProblems,
  'invalid_request',
  'run_not_found',
  'queue_unavailable',
];

/** Restricts a list to some of the pipelines that the token can access. */
export const pipelinesParameter = names(100, maxIdChars, {
  description: 'Lists only runs of these pipelines (comma-separated). Default: all pipelines of the token.',
  example: 'maps',
});

/** The parameters for searching the retained runs of several pipelines. */
export const searchParameters = {
  ...pageParameters,
  pipeline: pipelinesParameter,
  since: periodBound('since', {
    description: 'Lists only runs that were accepted at or after this time, or from this day on (UTC).',
    example: '2026-11-20T00:00:00Z',
  }),
  until: periodBound('until', {
    description: 'Lists only runs that were accepted at or before this time, or up to this day (UTC).',
    example: '2026-11-20',
  }),
  q: freeText(200, {
    description:
      'Lists only runs whose record contains all of these words, ignoring case: in ids, status, actions, paths, errors and warnings, or in the token, publisher, message, commit, branch and author.',
    example: 'unmanaged',
  }),
};
const allQuery = queryParameters(searchParameters);

/** A search over the retained runs of all pipelines. */
interface RunSearchQuery {
  limit: number;
  pipeline?: readonly string[];
  status?: string | null;
  since?: Date | null;
  until?: Date | null;
  q?: string | null;
}

/** Returns the URL of the next page when listing all runs, or null if this is the last page. */
export function nextOfAll(basePath: string, search: RunSearchQuery, before: string | null): string | null {
  if (before === null) return null;
  const { limit, pipeline = [], status, since, until, q } = search;
  const query = new URLSearchParams({
    limit: String(limit),
    ...(pipeline.length > 0 && { pipeline: pipeline.join(',') }),
    ...(status && { status }),
    ...(since && { since: since.toISOString() }),
    ...(until && { until: until.toISOString() }),
    ...(q && { q }),
    before,
  });
  return `${basePath}v1/runs?${query.toString()}`;
}

export const listAllRunsRoute: Route<RunPorts> = {
  method: 'get',
  path: '/v1/runs',
  operationId: 'listAllRuns',
  tag: 'runs',
  summary: 'List runs of all pipelines',
  description:
    'Lists all retained runs of the pipelines of the token, newest first. At most 2,000 runs are examined for one page. A page with `status`, `since`, `until` or `q` can therefore be shorter than its limit, or even empty, and still have a `next`.',
  access: 'token',
  scopes: ['read'],
  parameters: allQuery.parameters,
  responses: { 200: { description: 'One page of runs.', content: jsonContent('RunSearch') } },
  problems: listProblems,
  handle: (ports) => listAllRuns(ports),
};

function listAllRuns(ports: RunPorts): RequestHandler {
  return async (req, res) => {
    const token = tokenOfCaller(req, res, ports);
    const query = allQuery.read(req.url);
    const { limit, before, status, since, until, q } = query;
    const page = await ports.queue.list(pipelinesOf(token, query.pipeline, ports), {
      limit,
      before,
      status,
      since,
      notAfter: until,
      text: q,
    });
    const runs: readonly RunRecord[] = page.runs;
    await sendJson(req, res, { runs, next: nextOfAll(ports.http.basePath, query, page.next) });
  };
}

const listQuery = queryParameters(pageParameters);
type ListQuery = ReturnType<typeof listQuery.read>;

export const listRunsRoute: Route<RunPorts> = {
  method: 'get',
  path: '/v1/pipelines/{pipeline_id}/runs',
  operationId: 'listRuns',
  tag: 'runs',
  summary: 'List runs of a pipeline',
  description: 'Lists all retained runs, newest first: uploads and runs that users or schedules started.',
  access: 'token',
  scopes: ['read'],
  parameters: [pipelineIdParameter, ...listQuery.parameters],
  responses: { 200: { description: 'One page of runs.', content: jsonContent('RunList') } },
  problems: listProblems,
  handle: (ports) => listRuns(ports),
};

function listRuns(ports: RunPorts): RequestHandler<{ pipelineId: string }> {
  return async (req, res) => {
    const { pipelineId } = req.params;
    authorizeConfigured(req, res, ports, { id: pipelineId, scope: 'read', admitsAdmin: false });
    const query = listQuery.read(req.url);
    const { runs, next } = await ports.queue.list([pipelineId], query);
    const paused = (await ports.queue.pauses()).get(pipelineId) ?? null;
    await sendJson(req, res, {
      runs,
      next: next === null ? null : nextPage(ports.http.basePath, pipelineId, query, next),
      paused,
    });
  };
}

function nextPage(basePath: string, pipelineId: string, query: ListQuery, before: string): string {
  const { limit, status } = query;
  const search = new URLSearchParams({ limit: String(limit), ...(status && { status }), before });
  return `${basePath}v1/pipelines/${encodeURIComponent(pipelineId)}/runs?${search.toString()}`;
}
