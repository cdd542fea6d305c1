import { WaybillError } from '../../../core/lib/errors.ts';
import type { RunResult } from '../../../core/publish/results/result.ts';
import { untilLeft } from '../../http/request/client-connection.ts';
import { requestContext } from '../../http/request/request-context.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { paths, withFlash } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { goTo, show } from '../show.ts';
import { planView } from '../views/plan-view.ts';
import { action, isAllowed, page, permit, placesFor, type Visit } from '../visit.ts';
import { channelOf, type PipelineParams, startFrom } from './pipeline-pages.ts';

const path = '/console/pipelines/{pipeline_id}/plan';

/**
 * Shows only the form. Computing a plan reads the source and destinations, so following a link must not
 * trigger it.
 */
export const planPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path,
  handle: (parts) => page<PipelineParams>(parts, (visit) => showPlan(visit, null)),
};

/**
 * Computes what a run would do right now. This changes nothing, so it responds with the page instead of
 * redirecting.
 */
export const planAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path,
  audit: { none: 'it changes nothing' },
  handle: (parts) =>
    action<PipelineParams>(
      parts,
      async (visit, form) => {
        const channel = channelOf(visit, form);
        showPlan(visit, await plan(visit, channel), { channel });
      },
      (visit) => showPlan(visit, null),
    ),
};

/**
 * Starts a run if the plan is still the one that the visitor saw. If it has changed, shows the new plan
 * instead.
 */
export const runPlanAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: `${path}/run`,
  audit: 'run.start',
  handle: (parts) =>
    action<PipelineParams>(
      parts,
      async (visit, form) => {
        const channel = channelOf(visit, form);
        const planned = await plan(visit, channel);
        if (planView(planned, parts.clock.now()).digest !== form.get('plan')) {
          requestContext(visit.req).act = null;
          showPlan(visit, planned, { channel, isChanged: true });
        } else goTo(visit, withFlash(paths.run(await startFrom(visit, form)), 'started'));
      },
      (visit) => showPlan(visit, null),
    ),
};

async function plan(visit: Visit<PipelineParams>, channel: string | null): Promise<RunResult> {
  const { req, res, parts } = visit;
  const pipelineId = permitPlan(visit);
  const runId = `dry-run.${requestContext(req).id}`;
  const job = { runId, pipelineId, staged: null, ...(channel === null ? {} : { channel }) };
  return untilLeft(res, parts.stopping, (signal) => parts.threads.plan(job, signal));
}

/** Returns the pipeline's id. Throws `pipeline_takes_uploads`, and the same errors as `permit`. */
function permitPlan({ req, res, visitor, access }: Visit<PipelineParams>): string {
  const { pipeline_id: id } = permit(res, visitor, 'plan', req.params.pipelineId, access);
  if (access.sourcePipelines.has(id)) return id;
  throw new WaybillError('pipeline_takes_uploads', `the pipeline "${id}" has no source to read`, {
    hint: 'upload a bundle, with "Plan without publishing"',
  });
}

function showPlan(
  visit: Visit<PipelineParams>,
  planned: RunResult | null,
  { channel = null, isChanged = false }: { channel?: string | null; isChanged?: boolean } = {},
): void {
  const id = permitPlan(visit);
  const options = { isOfSource: true, places: placesFor(visit.visitor, id, visit.access) };
  show(visit, {
    title: `Plan of ${id}`,
    template: 'plan',
    crumbs: [{ label: id, path: paths.pipeline(id) }, { label: 'Plan' }],
    view: {
      plan: planned === null ? null : planView(planned, visit.parts.clock.now(), options),
      path: paths.plan(id),
      pipelinePath: paths.pipeline(id),
      destinationPath: (destination: string) => paths.destination(id, destination),
      mayStart: isAllowed(visit.visitor, 'start', id),
      channels: visit.access.sourcePipelines.get(id) ?? [],
      channel,
      isUpload: false,
    },
    ...(isChanged
      ? { flash: 'The plan is another one by now, so nothing was started. This is the new one.' }
      : {}),
  });
}
