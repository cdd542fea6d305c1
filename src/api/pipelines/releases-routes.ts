import type { Request, RequestHandler, Response } from 'express';
import type { Current } from '../../core/lib/current.ts';
import type { ErrorCode } from '../../core/lib/error-codes.ts';
import {
  asWaybillError,
  publicFinding,
  type WaybillError,
  withDetails,
  withoutPaths,
} from '../../core/lib/errors.ts';
import { jsonDocument } from '../../core/lib/json-document.ts';
import { bundlePath, flag, freeText, type JsonSchema } from '../../core/lib/parameters.ts';
import type { PublishingThreads } from '../../workers/threads/publishing-pool.ts';
import type { ReleasesAnswer, ReleasesRequest } from '../../workers/threads/releases-request.ts';
import { isConcealed } from '../http/answer/error-status.ts';
import type { RoutePorts } from '../http/http-app.ts';
import { bodyCheck, readSmallJson } from '../http/json-body.ts';
import { queryParameters } from '../http/query-parameters.ts';
import { untilLeft } from '../http/request/client-connection.ts';
import { keepAuthorized, requestContext } from '../http/request/request-context.ts';
import { jsonContent, type OpenApiParameter, pipelineIdParameter, type Route } from '../http/route.ts';
import { authorizeConfigured, pipelineAccessProblems, type RunAccess } from './pipeline-access.ts';

/*
 * Lists and compares a destination's releases, and switches between them. With every queue driver, the host
 * that gets the request does this itself, without a run.
 */

export interface DestinationParams {
  pipelineId: string;
  destinationId: string;
}

const destinationIdParameter: OpenApiParameter = {
  name: 'destination_id',
  in: 'path',
  required: true,
  description: 'Id of a destination of the pipeline with `layout: releases`.',
  schema: { type: 'string' },
  example: 'site',
};
const releaseIdParameter: OpenApiParameter = {
  name: 'release_id',
  in: 'path',
  required: true,
  description: 'Id of a release from the list.',
  schema: { type: 'string' },
  example: '20261121T101500Z-9f2c41aa',
};

const releaseNameParameter: OpenApiParameter = {
  ...releaseIdParameter,
  description: 'Id of a release, name of a channel, or `current`.',
};

const listQuery = queryParameters({
  path: bundlePath({ description: 'Only the releases of this bundle path; `.` for the root.', example: '.' }),
});
const onePath = bundlePath({
  description: 'Bundle path at the destination. Required if there are releases of several bundle paths.',
  example: 'session-42',
});
const showQuery = queryParameters({ path: onePath });
const compareQuery = queryParameters({
  path: onePath,
  to: freeText(200, {
    description: 'Release to compare with: an id, a channel, or `current`. Default: `current`.',
    example: 'preview',
  }),
});
const activateQuery = queryParameters({
  path: onePath,
  dry_run: flag(false, { description: 'Reports the change without making it.' }),
});

const activation: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    rollback: {
      description:
        'Rolls back, like `waybill releases rollback ID`: later publications do not make the replaced release current again. Without it, the release is promoted, and releases that were rolled back can become current again.',
      type: 'boolean',
      default: false,
    },
  },
};
const checkActivation = bodyCheck(activation, 'send no body, {} or {"rollback": true}');

const problems = [
  ...pipelineAccessProblems,
  'invalid_request',
  'destination_not_found',
  'no_releases',
  'state_conflict',
  'destination_unavailable',
  'server_busy',
  'shutting_down',
] as const satisfies readonly ErrorCode[];

export const listReleasesRoute: Route<ReleasesPorts> = {
  method: 'get',
  path: '/v1/pipelines/{pipeline_id}/destinations/{destination_id}/releases',
  operationId: 'listReleases',
  tag: 'pipelines',
  summary: 'List the releases of a destination',
  description:
    'For destinations with `layout: releases`. The response is the document that `waybill releases list --format json` prints, read from the destination.',
  access: 'token',
  scopes: ['read', 'admin'],
  parameters: [pipelineIdParameter, destinationIdParameter, ...listQuery.parameters],
  responses: { 200: { description: 'All releases, newest first.', content: jsonContent('Releases') } },
  problems,
  handle: (ports) => list(ports),
};

const readingProblems = [...problems, 'release_not_found', 'bundle_path_needed', 'not_published'] as const;

export const showReleaseRoute: Route<ReleasesPorts> = {
  method: 'get',
  path: '/v1/pipelines/{pipeline_id}/destinations/{destination_id}/releases/{release_id}',
  operationId: 'showRelease',
  tag: 'pipelines',
  summary: 'Show a release and its files',
  description:
    'The response is the document that `waybill releases show --format json` prints. `error` is not null if files are missing or have another size.',
  access: 'token',
  scopes: ['read', 'admin'],
  parameters: [pipelineIdParameter, destinationIdParameter, releaseNameParameter, ...showQuery.parameters],
  responses: { 200: { description: 'The release.', content: jsonContent('Release') } },
  problems: readingProblems,
  handle: (ports) => async (req: Request<ReleaseParams>, res) => {
    authorizeConfigured(req, res, ports, { id: req.params.pipelineId, scope: 'read' });
    const { path } = showQuery.read(req.url);
    await sendDocument(req, res, ports, { kind: 'show', path, release: req.params.releaseId });
  },
};

export const compareReleasesRoute: Route<ReleasesPorts> = {
  method: 'get',
  path: '/v1/pipelines/{pipeline_id}/destinations/{destination_id}/releases/{release_id}/diff',
  operationId: 'compareReleases',
  tag: 'pipelines',
  summary: 'Compare two releases',
  description:
    'Lists the paths that were added, changed and removed. The response is the document that `waybill releases diff --format json` prints.',
  access: 'token',
  scopes: ['read', 'admin'],
  parameters: [pipelineIdParameter, destinationIdParameter, releaseNameParameter, ...compareQuery.parameters],
  responses: { 200: { description: 'The differences.', content: jsonContent('ReleaseDiff') } },
  problems: readingProblems,
  handle: (ports) => async (req: Request<ReleaseParams>, res) => {
    authorizeConfigured(req, res, ports, { id: req.params.pipelineId, scope: 'read' });
    const { path, to } = compareQuery.read(req.url);
    const from = req.params.releaseId;
    await sendDocument(req, res, ports, { kind: 'diff', path, from, to: to ?? 'current' });
  },
};

export const activateReleaseRoute: Route<ReleasesPorts> = {
  method: 'post',
  path: '/v1/pipelines/{pipeline_id}/destinations/{destination_id}/releases/{release_id}/activate',
  operationId: 'activateRelease',
  tag: 'pipelines',
  summary: 'Make a release current',
  description:
    'Like `waybill releases promote` or, with `rollback`, `waybill releases rollback ID`: one atomic step that copies nothing. Repeating the request changes nothing. A release that is missing, damaged, incomplete or being removed is rejected, and the current release stays.',
  access: 'token',
  scopes: ['releases', 'admin'],
  parameters: [pipelineIdParameter, destinationIdParameter, releaseIdParameter, ...activateQuery.parameters],
  body: {
    description: 'Empty, or whether this is a rollback.',
    required: false,
    content: jsonContent(activation, { rollback: true }),
  },
  responses: {
    200: { description: 'The previous and the current release.', content: jsonContent('ReleaseSwitch') },
  },
  problems: [
    ...problems,
    'unsupported_media_type',
    'release_not_found',
    'release_unusable',
    'bundle_path_needed',
    'not_published',
    'destination_busy',
  ],
  audit: 'release.activate',
  handle: (ports) => activate(ports),
};

type ReleaseParams = DestinationParams & { releaseId: string };

async function sendDocument(
  req: Request<ReleaseParams>,
  res: Response,
  ports: ReleasesPorts,
  asked: DestinationRequest<ReleasesRequest> & { kind: 'show' | 'diff' },
): Promise<void> {
  const answer = await askReleases(req, res, ports, asked);
  if (answer.kind === 'document') res.type('json').send(answer.text);
}

function list(ports: ReleasesPorts): RequestHandler<DestinationParams> {
  return async (req, res) => {
    authorizeConfigured(req, res, ports, { id: req.params.pipelineId, scope: 'read' });
    const { path } = listQuery.read(req.url);
    const answer = await askReleases(req, res, ports, { kind: 'list', path });
    if (answer.kind === 'list') send(res, 'releases', { ...about(req), paths: answer.paths, warnings: [] });
  };
}

function activate(ports: ReleasesPorts): RequestHandler<ReleaseParams> {
  return async (req, res) => {
    keepAuthorized(req, () =>
      authorizeConfigured(req, res, ports, { id: req.params.pipelineId, scope: 'releases' }),
    );
    const { path, dry_run: dryRun } = activateQuery.read(req.url);
    const body = await readSmallJson(req, res, ports);
    if (body !== undefined) checkActivation(body);
    const { rollback = false } = (body ?? {}) as { rollback?: boolean };
    requestContext(req).act = dryRun ? null : rollback ? 'release.rollback' : 'release.activate';
    const { releaseId: release } = req.params;
    const verb = rollback ? 'rollback' : 'promote';
    const answer = await askReleases(req, res, ports, { kind: 'activate', path, release, verb, dryRun });
    if (answer.kind !== 'activate') return;
    const { from, to, destinationPath } = answer;
    const isChanged = from !== to;
    if (isChanged && !dryRun) ports.log.info({ ...logged(req), from, to }, `release ${past[verb]}`);
    const done = { action: verb, dryRun, ...about(req), destinationPath, from, to, isChanged };
    send(res, 'release-switch', { ...done, error: null, warnings: [] });
  };
}

const past = { promote: 'promoted', rollback: 'rolled back to' };

function about({ params }: Request<DestinationParams>): DestinationParams {
  return { pipelineId: params.pipelineId, destinationId: params.destinationId };
}

function logged({ params }: Request<DestinationParams>): object {
  return { pipeline_id: params.pipelineId, destination_id: params.destinationId };
}

/** A request about the destination in the URL. */
export type DestinationRequest<R> = R extends unknown
  ? Omit<R, 'runId' | 'pipelineId' | 'destinationId'>
  : never;

/**
 * Runs a request on another thread. The caller must already be authorized. Local paths are removed from any
 * error that it throws.
 */
export async function askReleases(
  req: Request<DestinationParams>,
  res: Response,
  { threads, stopping }: ReleasesPorts,
  asked: DestinationRequest<ReleasesRequest>,
): Promise<ReleasesAnswer> {
  const runId = `releases.${requestContext(req).id}`;
  const request = { ...asked, ...about(req), runId };
  return untilLeft(res, stopping, async (signal) => threads.releases(request, signal)).catch(
    (thrown: unknown) => {
      throw disclosed(thrown);
    },
  );
}

/**
 * Removes local paths from an error before it is sent. Errors from the core may contain the path of a
 * destination.
 */
export function disclosed(thrown: unknown): WaybillError {
  const error = asWaybillError(thrown);
  const { code, message, findings, cause } = error;
  if (isConcealed(code)) return error;
  return withDetails(error, {
    message: withoutPaths(message),
    findings: findings.map(publicFinding),
    cause,
  });
}

function send(res: Response, kind: string, document: object): void {
  res.type('json').send(jsonDocument(kind, document, 0));
}

export interface ReleasesPorts extends RoutePorts {
  configured: Current<Pick<RunAccess, 'tokens' | 'publishers' | 'adminToken' | 'pipelineIds'>>;
  threads: Pick<PublishingThreads, 'releases'>;
  /** Aborted when the daemon stops. Pending requests then fail with its reason. */
  stopping: AbortSignal;
}
