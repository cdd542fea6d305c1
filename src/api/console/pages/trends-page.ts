import type { PageRoute } from '../../pages/page-route.ts';
import { paths } from '../paths.ts';
import { trendsOf } from '../plots/trends.ts';
import type { ConsoleParts } from '../ports.ts';
import { show } from '../show.ts';
import { page } from '../visit.ts';
import { plural } from '../words.ts';
import { permit } from '../visitor.ts';

/** Runs that the plots are made of: more cost the daemon more than they tell. */
const mostRuns = 2_000;

/** How the retained runs of a pipeline went, over time. */
export const trendsPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/pipelines/{pipeline_id}/trends',
  handle: (parts) =>
    page<{ pipelineId: string }>(parts, async (visit) => {
      const { req, res, visitor, access } = visit;
      const { pipeline_id: id } = permit(res, visitor, 'read', req.params.pipelineId, access);
      const { runs, next } = await parts.queue.list([id], { limit: mostRuns });
      show(visit, {
        title: `Trends of ${id}`,
        template: 'trends',
        crumbs: [{ label: id, path: paths.pipeline(id) }, { label: 'Trends' }],
        view: { plots: trendsOf(runs), runs: plural(runs.length, 'retained run'), isAll: next === null },
        follows: { pipeline: id },
      });
    }),
};
