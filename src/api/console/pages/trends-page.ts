import type { PageRoute } from '../../pages/page-routes.ts';
import { paths, withQuery } from '../paths.ts';
import type { ConsoleParts } from '../ports.ts';
import { plural } from '../record-text.ts';
import { show } from '../show.ts';
import { runLines } from '../views/pipeline-view.ts';
import { type Holding, holdingsOf, periodOf, trendFacts } from '../views/trend-facts.ts';
import { minPlottedRuns, trendsOf } from '../views/trends.ts';
import { firstRunOf, page, permit } from '../visit.ts';

/** The maximum number of runs to plot. Beyond this, pages get slower without showing more detail. */
const maxRuns = 2_000;

const maxListed = 5;

/** Lists a pipeline's failed runs and plots trends across its retained runs, or lists its first few runs. */
export const trendsPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: '/console/pipelines/{pipeline_id}/trends',
  handle: (parts) =>
    page<{ pipelineId: string }>(parts, async (visit) => {
      const { req, res, visitor, access } = visit;
      const { pipeline_id: id } = permit(res, visitor, 'read', req.params.pipelineId, access);
      const { runs, next } = await parts.queue.list([id], { limit: maxRuns });
      const ended = runs.filter((run) => run.finished_at !== null);
      const failed = ended.filter(({ status }) => status === 'failed');
      const isPlotted = ended.length >= minPlottedRuns;
      const listed = isPlotted ? failed : ended;
      show(visit, {
        title: `Trends of ${id}`,
        template: 'trends',
        crumbs: [{ label: id, path: paths.pipeline(id) }, { label: 'Trends' }],
        view: {
          plots: isPlotted ? trendsOf(runs).filter(({ isShown }) => isShown) : [],
          facts: isPlotted ? trendFacts(runs) : [],
          isEmpty: ended.length === 0,
          isPlotted,
          minPlottedRuns,
          listedTitle: listed.length > maxListed ? 'Newest failed runs' : isPlotted ? 'Failed runs' : 'Runs',
          listed: runLines(listed.slice(0, maxListed), parts.clock.now()),
          listedPath: withQuery(paths.runs(), { pipeline: id, status: isPlotted ? 'failed' : null }),
          holdings: isPlotted ? comparable(holdingsOf(runs)) : [],
          runs: plural(ended.length, 'run'),
          period: periodOf(ended),
          runPath: paths.run,
          destinationPath: (destination: string) => paths.destination(id, destination),
          firstRun: firstRunOf(visit, id),
          isAll: next === null,
        },
        follows: { pipeline: id },
      });
    }),
};

/** Returns no bundles unless there are several to compare. */
function comparable(holdings: readonly Holding[]): readonly Holding[] {
  return holdings.flatMap(({ bundles }) => bundles).length > 1 ? holdings : [];
}
