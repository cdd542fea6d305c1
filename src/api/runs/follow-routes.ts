import type { IncomingMessage } from 'node:http';
import type { RequestHandler } from 'express';
import { wholeNumber } from '../../core/lib/parameters.ts';
import { findCaller, isExpired, type Token } from '../http/auth.ts';
import { queryParameters } from '../http/query-parameters.ts';
import { type OpenApiParameter, type ResponseObject, type Route, runIdParameter } from '../http/route.ts';
import { pipelineAccessProblems, pipelinesOf, tokenOfCaller } from '../pipelines/pipeline-access.ts';
import { nextOfAll, pipelinesParameter } from './list-runs.ts';
import { findRun, tokenOfReader } from './run-route.ts';
import type { RunPorts } from './run-service.ts';
import { streamRuns } from './run-stream.ts';

const lastEventId: OpenApiParameter = {
  name: 'Last-Event-ID',
  in: 'header',
  description:
    'The `id` of the last event that the client received. The stream continues after it, without a snapshot. If the id is no longer known, the stream starts with a snapshot with the reason `gap`.',
  schema: { type: 'string' },
};

const eventStream: ResponseObject = {
  description:
    'Server-sent events: `snapshot` with `{reason, runs, next}`, then `run` with the complete record whenever a run changes, and `end` with `{reason}` before the daemon closes the stream. A comment is sent every 15 s.',
  content: { 'text/event-stream': { schema: { type: 'string' } } },
};

export const followRunRoute: Route<RunPorts> = {
  method: 'get',
  path: '/runs/{run_id}/events',
  operationId: 'followRun',
  tag: 'runs',
  summary: 'Follow a run',
  description:
    'Needs the same access as the record. The stream ends when the run has finished. A client that reconnects with the last id gets 204, which stops an `EventSource` from reconnecting.',
  access: 'optional',
  scopes: ['read'],
  parameters: [runIdParameter, lastEventId],
  responses: {
    200: eventStream,
    204: { description: 'The run has finished, and the client has received its last event.' },
  },
  problems: [
    'token_expired',
    'insufficient_scope',
    'run_not_found',
    'forbidden',
    'quota_exceeded',
    'too_many_streams',
    'queue_unavailable',
  ],
  handle: (ports) => followRun(ports),
};

function followRun(ports: RunPorts): RequestHandler<{ runId: string }> {
  return async (req, res) => {
    const { runId } = req.params;
    const token = tokenOfReader(req, res, ports);
    const record = await findRun(token, runId, ports);
    const isOver = record.finished_at !== null;
    const subscription = {
      wants: ({ run_id }: { run_id: string }) => run_id === runId,
      snapshot: async () => ({ runs: [isOver ? record : await findRun(token, runId, ports)], next: null }),
      isLast: ({ finished_at }: { finished_at: string | null }) => finished_at !== null,
      isOver,
      refusal: () => (token === null ? null : refusalOf(req, [record.pipeline_id], ports)),
    };
    await streamRuns(req, res, subscription, ports);
  };
}

const followQuery = queryParameters({
  pipeline: pipelinesParameter,
  limit: wholeNumber(1, 500, 100, { description: 'Number of runs in a snapshot, newest first.' }),
});

export const followRunsRoute: Route<RunPorts> = {
  method: 'get',
  path: '/v1/events',
  operationId: 'followRuns',
  tag: 'runs',
  summary: 'Follow runs of all pipelines',
  description:
    'Reports the runs of all pipelines of the token. A snapshot has the newest runs. `next` is the page of `GET /v1/runs` with older runs.',
  access: 'token',
  scopes: ['read'],
  parameters: [...followQuery.parameters, lastEventId],
  responses: { 200: eventStream },
  problems: [
    ...pipelineAccessProblems,
    'invalid_request',
    'quota_exceeded',
    'too_many_streams',
    'queue_unavailable',
  ],
  handle: (ports) => followRuns(ports),
};

function followRuns(ports: RunPorts): RequestHandler {
  return async (req, res) => {
    const token = tokenOfCaller(req, res, ports);
    const { pipeline, limit } = followQuery.read(req.url);
    const pipelineIds = pipelinesOf(token, pipeline, ports);
    const wanted = new Set(pipelineIds);
    const subscription = {
      wants: ({ pipeline_id }: { pipeline_id: string }) => wanted.has(pipeline_id),
      snapshot: async () => {
        const { runs, next } = await ports.queue.list(pipelineIds, { limit });
        return { runs, next: nextOfAll(ports.http.basePath, { limit, pipeline }, next) };
      },
      isLast: () => false,
      isOver: false,
      refusal: () => refusalOf(req, pipelineIds, ports),
    };
    await streamRuns(req, res, subscription, ports);
  };
}

/**
 * Returns the error if the token of an open stream may no longer follow these pipelines, or null if it may.
 */
function refusalOf(
  { headers }: IncomingMessage,
  pipelineIds: readonly string[],
  { configured, clock }: Pick<RunPorts, 'configured' | 'clock'>,
): 'token_expired' | 'token_revoked' | null {
  let token: Token;
  try {
    token = findCaller(headers.authorization, configured.get());
  } catch {
    return 'token_revoked';
  }
  const isStillAllowed = token.scopes.has('read') && pipelineIds.every((id) => token.pipelines.has(id));
  if (!isStillAllowed) return 'token_revoked';
  return isExpired(token, clock) ? 'token_expired' : null;
}
