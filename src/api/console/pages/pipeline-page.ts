import type { PageRoute } from '../../pages/page-route.ts';
import { pipelineStates, type PipelineState } from '../../runs/pipelines-route.ts';
import { paths } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { show } from '../show.ts';
import type { PipelineParams } from '../start-from.ts';
import { gridRuns, pipelineView } from '../views/pipeline-view.ts';
import { page, type Visit } from '../visit.ts';
import { may, permit } from '../visitor.ts';

/** One pipeline: its destinations, its runs beside each other, and what can be done with it. */
export const pipelinePage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/pipelines/{pipeline_id}',
  handle: (parts) => page<PipelineParams>(parts, showPipeline),
};

export async function showPipeline(visit: Visit<PipelineParams>): Promise<void> {
  const { req, res, visitor, access, parts } = visit;
  const summary = permit(res, visitor, 'read', req.params.pipelineId, access);
  const id = summary.pipeline_id;
  const [state] = (await pipelineStates([summary], parts)) as [PipelineState];
  const { runs } = await parts.queue.list([id], { limit: gridRuns });
  const view = pipelineView(state, runs, parts.clock.now());
  show(visit, {
    title: id,
    template: 'pipeline',
    crumbs: [{ label: id }],
    view: {
      ...view,
      runPath: paths.run,
      destinationPath: (destination: string) => paths.destination(id, destination),
      path: paths.pipeline(id),
      trendsPath: paths.trends(id),
      runsPath: `${paths.runs()}?${new URLSearchParams({ pipeline: id }).toString()}`,
      uploadPath: access.uploadPipelines.has(id) && may(visitor, 'upload', id) ? paths.upload(id) : null,
      planPath: access.sourcePipelines.has(id) && may(visitor, 'plan', id) ? paths.plan(id) : null,
      mayStart: access.sourcePipelines.has(id) && may(visitor, 'start', id),
      channels: access.sourcePipelines.get(id) ?? [],
      isPaused: state.paused !== null,
    },
    follows: { pipeline: id },
    isMoving: state.running !== null || state.waiting > 0,
  });
}
