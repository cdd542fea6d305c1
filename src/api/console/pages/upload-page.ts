import type { Request, RequestHandler, Response } from 'express';
import { asWaybillError, WaybillError } from '../../../core/lib/errors.ts';
import { prefersPage } from '../../http/answer/negotiate.ts';
import { problemOf } from '../../http/answer/problem.ts';
import type { Token } from '../../http/auth.ts';
import { keepAuthorized, requestContext } from '../../http/request/request-context.ts';
import type { Handler } from '../../http/route.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { sendAccepted } from '../../runs/accept-run.ts';
import { formArchive } from '../../uploads/form-archive.ts';
import { sendPlan } from '../../uploads/staged-upload.ts';
import { takeUpload } from '../../uploads/take-upload.ts';
import type { UploadPipeline } from '../../uploads/upload-service.ts';
import { paths, withFlash } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { destinationsPhrase, plural, sizeText } from '../record-text.ts';
import { show } from '../show.ts';
import { planView } from '../views/plan-view.ts';
import {
  page,
  permit,
  requireCsrf,
  requireCurrent,
  requireOwnSite,
  requireVisitor,
  type Visit,
} from '../visit.ts';

interface PipelineParams {
  pipelineId: string;
}

const path = '/console/pipelines/{pipeline_id}/upload';
const envelopeBytes = 64 * 1024;

export const uploadPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path,
  handle: (parts) => page<PipelineParams>(parts, (visit) => showUpload(visit)),
};

/**
 * Accepts an archive from the upload form. Works like `POST /v1/pipelines/{pipeline_id}/upload/form`, but
 * authenticates the session instead of a token. Scripts that ask for JSON get the same response as from that
 * route, and browsers without JavaScript get a page.
 */
export const uploadAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path,
  audit: 'upload',
  handle: (parts) =>
    (async (req: Request<PipelineParams>, res: Response, next) => {
      requireOwnSite(req);
      const visitor = await requireVisitor(req, parts);
      const access = parts.configured.get();
      const visit: Visit<PipelineParams> = { req, res, visitor, access, parts };
      const isPage = prefersPage(req.headers.accept);
      const take = takeUpload(parts, {
        mediaTypes: ['multipart/form-data'],
        envelopeBytes,
        archive: ({ headers }) =>
          formArchive(headers, {
            names: ['csrf'],
            check: (fields) => requireCsrf(visitor, fields.get('csrf')),
          }),
        authorize: () => keepAuthorized(req, () => authorizeVisitor(visit)),
        ...(isPage
          ? {
              sendAccepted: (_req, _res, basePath, { record, replayed }) => {
                requestContext(req).fields['run_id'] = record.run_id;
                const to = withFlash(paths.run(record.run_id), replayed ? 'replayed' : 'uploaded');
                res.redirect(303, `${basePath}${to}`);
              },
              sendPlan: (_res, plan) => showUpload(visit, { plan: planView(plan, parts.clock.now()) }),
            }
          : { sendAccepted, sendPlan }),
      });
      try {
        await (take as RequestHandler<PipelineParams>)(req, res, next);
      } catch (thrown) {
        const error = asWaybillError(thrown);
        const problem = problemOf(error, requestContext(req).id);
        // Server errors and expired forms cannot be shown on this page, so they go to the error handler.
        if (!isPage || problem.status === 500 || error.code === 'form_expired') throw thrown;
        requestContext(req).fields['code'] = error.code;
        showUpload(visit, { problem, status: problem.status });
      }
    }) as RequestHandler<PipelineParams> as Handler,
};

/** Checks whether the current configuration still lets the visitor upload. Throws an error if not. */
function authorizeVisitor({ req, res, visitor, parts }: Visit<PipelineParams>): {
  token: Token;
  pipeline: UploadPipeline;
} {
  const current = requireCurrent(visitor, parts);
  const access = parts.configured.get();
  const { pipeline_id: id } = permit(res, current, 'upload', req.params.pipelineId, access);
  const pipeline = access.uploadPipelines.get(id);
  if (pipeline === undefined) throw takesNone();
  return { token: current.token, pipeline };
}

function showUpload(
  visit: Visit<PipelineParams>,
  {
    plan = null,
    problem = null,
    status = 200,
  }: { plan?: object | null; problem?: object | null; status?: number } = {},
): void {
  const { req, res, visitor, access } = visit;
  const { pipeline_id: id } = permit(res, visitor, 'upload', req.params.pipelineId, access);
  const pipeline = access.uploadPipelines.get(id);
  if (pipeline === undefined) throw takesNone();
  show(visit, {
    title: `Upload to ${id}`,
    template: 'upload',
    crumbs: [{ label: id, path: paths.pipeline(id) }, { label: 'Upload' }],
    scripts: ['console-upload'],
    status,
    view: {
      ...{ id, plan, problem },
      path: paths.upload(id),
      destinationPath: (destination: string) => paths.destination(id, destination),
      runsPath: paths.runs(),
      channels: pipeline.channels,
      maxFiles: plural(pipeline.maxFiles, 'file'),
      most: sizeText(pipeline.maxUploadSize),
      maxBytes: pipeline.maxUploadSize,
      maxFileCount: pipeline.maxFiles,
      destinations: destinationsPhrase(pipeline.destinations.map((one) => one.id)),
    },
  });
}

function takesNone(): WaybillError {
  return new WaybillError('pipeline_not_found', 'the pipeline takes no uploads', {
    hint: 'start a run of what its source holds',
  });
}
