import type { PageRoute } from '../../pages/page-route.ts';
import { pipelineStates, type PipelineState } from '../../runs/pipelines-route.ts';
import type { ConsoleParts } from '../ports.ts';
import { paths } from '../paths.ts';
import { show } from '../show.ts';
import { overviewView } from '../views/overview-view.ts';
import { page, type Visit } from '../visit.ts';
import { may, seenBy } from '../visitor.ts';

/** As many as the picture of a pipeline has bars for. */
const recentRuns = 30;

/** Every pipeline of the visitor, and how it stands. */
export const overviewPage: PageRoute<ConsoleParts> = {
  method: 'get',
  path: `/${paths.overview()}`,
  handle: (parts) =>
    page(parts, async (visit) => {
      const { visitor, access } = visit;
      const { queue, clock } = parts;
      const states = await pipelineStates(seenBy(visitor, access), parts);
      const pipelines = await Promise.all(
        states.map(async (state) => ({
          state,
          runs: (await queue.list([state.pipeline_id], { limit: recentRuns })).runs,
        })),
      );
      const cards = overviewView(pipelines, clock.now()).map((card) => ({
        ...card,
        href: paths.pipeline(card.id),
        mayUpload: may(visitor, 'upload', card.id) && access.uploadPipelines.has(card.id),
      }));
      show(visit, {
        title: 'Overview',
        template: 'overview',
        view: {
          cards,
          depth: await depthFor(visit, states),
          runsPath: paths.runs(),
          adminPath: paths.admin(),
        },
        follows: {},
        isMoving: states.some(({ running, waiting }) => running !== null || waiting > 0),
      });
    }),
};

/** How much is under way: for the admin on the whole daemon, for others of the pipelines that they see. */
async function depthFor(
  { visitor, parts }: Visit<unknown>,
  states: readonly PipelineState[],
): Promise<{ running: number; queued: number; reserved: number | null }> {
  if (visitor.isAdmin) return parts.queue.depth();
  return {
    running: states.filter(({ running }) => running !== null).length,
    queued: states.reduce((sum, { waiting }) => sum + waiting, 0),
    reserved: null,
  };
}
