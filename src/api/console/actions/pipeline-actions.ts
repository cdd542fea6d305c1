import { WaybillError } from '../../../core/lib/errors.ts';
import type { PageRoute } from '../../pages/page-route.ts';
import { pausePipeline, pauseReason, resumePipeline } from '../../runs/pause-routes.ts';
import { requireAdminToken } from '../../runs/pipeline-access.ts';
import { withFlash } from '../flash.ts';
import type { Form } from '../form.ts';
import { goTo } from '../go-to.ts';
import { showPipeline } from '../pages/pipeline-page.ts';
import { paths } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { startFrom, type PipelineParams } from '../start-from.ts';
import { action, type Visit } from '../visit.ts';
import { permit } from '../visitor.ts';

export const startAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/pipelines/{pipeline_id}/start',
  handle: (parts) =>
    action<PipelineParams>(
      parts,
      async (visit, form) => {
        goTo(visit, withFlash(paths.run(await startFrom(visit, form)), 'started'));
      },
      showPipeline,
    ),
};

export const pauseAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/pipelines/{pipeline_id}/pause',
  handle: (parts) =>
    action<PipelineParams>(
      parts,
      async (visit, form) => {
        const id = permitSteering(visit);
        await pausePipeline(id, reasonOf(form), parts);
        goTo(visit, withFlash(paths.pipeline(id), 'paused'));
      },
      showPipeline,
    ),
};

export const resumeAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/pipelines/{pipeline_id}/resume',
  handle: (parts) =>
    action<PipelineParams>(
      parts,
      async (visit) => {
        const id = permitSteering(visit);
        await resumePipeline(id, parts);
        goTo(visit, withFlash(paths.pipeline(id), 'resumed'));
      },
      showPipeline,
    ),
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
