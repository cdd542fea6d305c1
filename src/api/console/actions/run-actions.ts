import { newRunId } from '../../../workers/queue/start-run.ts';
import { requestContext } from '../../http/request/request-context.ts';
import type { PageRoute } from '../../pages/page-route.ts';
import { cancelFor } from '../../runs/cancel-route.ts';
import { findRun } from '../../runs/find-run.ts';
import { retryFor } from '../../runs/retry-route.ts';
import { withFlash } from '../flash.ts';
import { paths } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { showRun, type RunParams } from '../pages/run-page.ts';
import { goTo } from '../go-to.ts';
import { action, type Visit } from '../visit.ts';
import { permit, type Deed } from '../visitor.ts';

export const cancelAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/runs/{run_id}/cancel',
  handle: (parts) =>
    action<RunParams>(
      parts,
      async (visit) => {
        const { runId } = visit.req.params;
        const pipelineId = await permitRun(visit, 'cancel');
        await cancelFor({ pipelineId, runId }, parts);
        goTo(visit, withFlash(paths.run(runId), 'cancelled'));
      },
      showRun,
    ),
};

export const retryAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/runs/{run_id}/retry',
  handle: (parts) =>
    action<RunParams>(
      parts,
      async (visit) => {
        const { runId } = visit.req.params;
        const pipelineId = await permitRun(visit, 'retry');
        await retryFor({ pipelineId, runId }, parts);
        goTo(visit, withFlash(paths.run(runId), 'retry'));
      },
      showRun,
    ),
};

export const rerunAction: PageRoute<ConsoleParts> = {
  method: 'post',
  path: '/console/runs/{run_id}/rerun',
  handle: (parts) =>
    action<RunParams>(
      parts,
      async (visit) => {
        const { runId } = visit.req.params;
        const pipelineId = await permitRun(visit, 'rerun');
        const { trace } = requestContext(visit.req);
        const next = newRunId(pipelineId, parts.clock.now());
        const { record } = await parts.queue.rerun(runId, next, trace);
        goTo(visit, withFlash(paths.run(record.run_id), 'rerun'));
      },
      showRun,
    ),
};

/** The pipeline of the run of the path. Throws `run_not_found` and as `permit`. */
async function permitRun(visit: Visit<RunParams>, deed: Deed): Promise<string> {
  const { req, res, visitor, access, parts } = visit;
  const { runId } = req.params;
  const record = await findRun(visitor.isAdmin ? null : visitor.token, runId, parts);
  permit(res, visitor, deed, record.pipeline_id, access);
  Object.assign(requestContext(req).fields, { run_id: runId, pipeline_id: record.pipeline_id });
  return record.pipeline_id;
}
