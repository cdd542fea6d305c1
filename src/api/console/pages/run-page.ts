import type { PageRoute } from '../../pages/page-route.ts';
import { findRun } from '../../runs/find-run.ts';
import { paths } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { show } from '../show.ts';
import { runView } from '../views/run-view.ts';
import { page, type Visit } from '../visit.ts';
import { may, permit } from '../visitor.ts';

/** One run: what it went through, what it did where and why, and what can be done about it. */
export const runPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/runs/{run_id}',
  handle: (parts) => page<RunParams>(parts, showRun),
};

export interface RunParams {
  runId: string;
}

export async function showRun(visit: Visit<RunParams>): Promise<void> {
  const { req, res, visitor, access, parts } = visit;
  const record = await findRun(visitor.isAdmin ? null : visitor.token, req.params.runId, parts);
  const { pipeline_id: pipelineId, run_id: runId } = record;
  const pipeline = permit(res, visitor, 'read', pipelineId, access);
  const ids = record.channel === null ? pipeline.destinations.map((one) => one.destination_id) : [];
  const view = runView(record, ids, parts.clock.now());
  show(visit, {
    title: view.title,
    template: 'run',
    crumbs: [{ label: pipelineId, path: paths.pipeline(pipelineId) }, { label: runId }],
    view: {
      ...view,
      runPath: paths.run,
      destinationPath: (destination: string, path: string | null) =>
        withPath(paths.destination(pipelineId, destination), path),
      openPath: (destination: string, path: string) => withPath(paths.open(pipelineId, destination), path),
      path: paths.run(runId),
      recordPath: `runs/${encodeURIComponent(runId)}`,
      mayCancel: !view.isOver && may(visitor, 'cancel', pipelineId),
      mayRetry: view.retry !== null && may(visitor, 'retry', pipelineId),
      mayRerun: record.rerunnable && may(visitor, 'rerun', pipelineId),
    },
    ...(view.isOver && record.failed_deliveries.every(({ status }) => status !== 'retrying')
      ? {}
      : { follows: { pipeline: pipelineId, run: runId } }),
    isMoving: !view.isOver,
  });
}

function withPath(address: string, path: string | null): string {
  return path === null ? address : `${address}?${new URLSearchParams({ path }).toString()}`;
}
