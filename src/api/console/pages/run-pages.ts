import { newRunId } from '../../../workers/queue/start-run.ts';
import { originOf, requestContext } from '../../http/request/request-context.ts';
import type { PageRoute } from '../../pages/page-routes.ts';
import { cancelFor, retryFor } from '../../runs/run-action-routes.ts';
import { findRun } from '../../runs/run-route.ts';
import { paths, withFlash, withQuery } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { goTo, show } from '../show.ts';
import { runView } from '../views/run-view.ts';
import { action, isAllowed, page, permit, type PipelineOperation, placesFor, type Visit } from '../visit.ts';

/** Shows a run with its stages, its results at each destination, and the available actions. */
export const runPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/runs/{run_id}',
  handle: (parts) => page<RunParams>(parts, showRun),
};

interface RunParams {
  runId: string;
}

async function showRun(visit: Visit<RunParams>): Promise<void> {
  const { req, res, visitor, access, parts } = visit;
  const record = await findRun(visitor.isAdmin ? null : visitor.token, req.params.runId, parts);
  const { pipeline_id: pipelineId, run_id: runId } = record;
  const pipeline = permit(res, visitor, 'read', pipelineId, access);
  const ids = record.channel === null ? pipeline.destinations.map((one) => one.destination_id) : [];
  const view = runView(record, ids, parts.clock.now(), {
    lines: parts.runs.lines.linesOf(runId),
    places: placesFor(visitor, pipelineId, access),
  });
  show(visit, {
    title: `${view.name} → ${view.target}, ${view.short}`,
    template: 'run',
    nav: 'runs',
    crumbs: [{ label: pipelineId, path: paths.pipeline(pipelineId) }, { label: view.name }],
    view: {
      ...view,
      runPath: paths.run,
      destinationPath: (destination: string, path: string | null) =>
        withQuery(paths.destination(pipelineId, destination), { path }),
      openPath: (destination: string, path: string) =>
        withQuery(paths.open(pipelineId, destination), { path }),
      path: paths.run(runId),
      pipelineId,
      pipelinePath: paths.pipeline(pipelineId),
      adminPath: paths.admin(),
      waitsFor: waitText((await parts.queue.pauses()).get(pipelineId)),
      recordPath: `runs/${encodeURIComponent(runId)}`,
      mayCancel: !view.isOver && isAllowed(visitor, 'cancel', pipelineId),
      mayRetry: view.retry !== null && isAllowed(visitor, 'retry', pipelineId),
      mayRerun: record.rerunnable && isAllowed(visitor, 'rerun', pipelineId),
    },
    ...(view.isOver && record.failed_deliveries.every(({ status }) => status !== 'retrying')
      ? {}
      : { follows: { pipeline: pipelineId, run: runId } }),
    isMoving: !view.isOver,
  });
}

/** Returns why a run that was accepted has not started. */
function waitText(pause: { reason: string | null } | undefined): string {
  if (pause === undefined) return 'Runs of a pipeline start one at a time.';
  return pause.reason === null ? 'The pipeline is paused.' : `The pipeline is paused: ${pause.reason}`;
}

export const cancelAction = runAction('cancel', async ({ parts }, run) => {
  await cancelFor(run, parts);
  return withFlash(paths.run(run.runId), 'cancelled');
});

export const retryAction = runAction('retry', async ({ parts }, run) => {
  await retryFor(run, parts);
  return withFlash(paths.run(run.runId), 'retry');
});

export const rerunAction = runAction('rerun', async ({ parts, req }, { pipelineId, runId }) => {
  const next = newRunId(pipelineId, parts.clock.now());
  const { record } = await parts.queue.rerun(runId, next, originOf(req));
  requestContext(req).fields['run_id'] = record.run_id;
  return withFlash(paths.run(record.run_id), 'rerun');
});

/** Makes the route of an action on a run. `act` returns the path of the page to show afterwards. */
function runAction(
  operation: 'cancel' | 'retry' | 'rerun',
  act: (visit: Visit<RunParams>, run: { pipelineId: string; runId: string }) => Promise<string>,
): PageRoute<ConsoleParts> {
  return {
    method: 'post',
    path: `/console/runs/{run_id}/${operation}`,
    audit: `run.${operation}`,
    handle: (parts) =>
      action<RunParams>(
        parts,
        async (visit) => {
          const pipelineId = await permitRun(visit, operation);
          goTo(visit, await act(visit, { pipelineId, runId: visit.req.params.runId }));
        },
        showRun,
      ),
  };
}

/**
 * Returns the id of the pipeline that the run belongs to. Throws `run_not_found`, and the same errors as
 * `permit`.
 */
async function permitRun(visit: Visit<RunParams>, operation: PipelineOperation): Promise<string> {
  const { req, res, visitor, access, parts } = visit;
  const { runId } = req.params;
  const record = await findRun(visitor.isAdmin ? null : visitor.token, runId, parts);
  permit(res, visitor, operation, record.pipeline_id, access);
  Object.assign(requestContext(req).fields, { run_id: runId, pipeline_id: record.pipeline_id });
  return record.pipeline_id;
}
