import { WaybillError } from '../../../core/errors.ts';
import { startRun } from '../../../workers/start-run.ts';
import { requestContext } from '../../http/request/request-context.ts';
import type { PageRoute } from '../../pages/page-route.ts';
import { requireChannel } from '../../runs/channel-query.ts';
import { pausePipeline, pauseReason, resumePipeline } from '../../runs/pause-routes.ts';
import { requireAdminToken } from '../../runs/pipeline-access.ts';
import { withFlash } from '../flash.ts';
import type { Form } from '../form.ts';
import { paths } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { action, type Visit } from '../visit.ts';
import { permit } from '../visitor.ts';
import { goTo } from './run-actions.ts';

interface PipelineParams {
  pipelineId: string;
}

export const startAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/pipelines/{pipeline_id}/start',
  handle: (parts) =>
    action<PipelineParams>(parts, async (visit, form) => {
      goTo(visit, withFlash(paths.run(await startFrom(visit, form)), 'started'));
    }),
};

/** Starts a run of what the source holds, and resolves with its id. Throws as `permit` and `startRun`. */
export async function startFrom(visit: Visit<PipelineParams>, form: Form): Promise<string> {
  const { req, res, visitor, access, parts } = visit;
  const { pipeline_id: pipelineId } = permit(res, visitor, 'start', req.params.pipelineId, access);
  const channels = access.sourcePipelines.get(pipelineId);
  if (channels === undefined)
    throw new WaybillError('pipeline_takes_uploads', `the pipeline "${pipelineId}" has no source to read`, {
      hint: 'upload a bundle to it',
    });
  const asked = form.get('channel') ?? '';
  const channel = asked === '' ? null : asked;
  if (channel !== null) requireChannel({ id: pipelineId, channels }, channel);
  const { fields, trace } = requestContext(req);
  const { record } = await startRun(parts, { pipelineId, channel }, trace);
  Object.assign(fields, { run_id: record.run_id, pipeline_id: pipelineId });
  return record.run_id;
}

export const pauseAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/pipelines/{pipeline_id}/pause',
  handle: (parts) =>
    action<PipelineParams>(parts, async (visit, form) => {
      const id = permitSteering(visit);
      await pausePipeline(id, reasonOf(form), parts);
      goTo(visit, withFlash(paths.pipeline(id), 'paused'));
    }),
};

export const resumeAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/pipelines/{pipeline_id}/resume',
  handle: (parts) =>
    action<PipelineParams>(parts, async (visit) => {
      const id = permitSteering(visit);
      await resumePipeline(id, parts);
      goTo(visit, withFlash(paths.pipeline(id), 'resumed'));
    }),
};

function permitSteering({ req, res, visitor, access }: Visit<PipelineParams>): string {
  requireAdminToken(visitor.token, access);
  return permit(res, visitor, 'read', req.params.pipelineId, access).pipeline_id;
}

/** Throws `invalid_request`. */
function reasonOf(form: Form): string | null {
  const reason = form.get('reason')?.trim() ?? '';
  const { mostChars, pattern } = pauseReason;
  if (reason.length > mostChars || !new RegExp(pattern, 'u').test(reason))
    throw new WaybillError(
      'invalid_request',
      `the reason is not one line of at most ${mostChars} characters`,
    );
  return reason === '' ? null : reason;
}
