import type { RunRecord } from '../../../workers/queue/run-record.ts';
import type { PipelineState } from '../../runs/pipelines-route.ts';
import { runBars, type RunBars } from '../plots/run-bars.ts';
import { overviewView, standingOf, type PipelineCard, type Standing } from './overview-view.ts';
import { runGrid, type RunGrid } from './run-grid.ts';
import { runLines, type RunLine } from './run-line-view.ts';
import { actionMark, momentOf, type Mark, type Moment } from '../words.ts';

export interface PipelineView extends PipelineCard {
  standing: Standing;
  schedule: string | null;
  watch: boolean;
  hasSource: boolean;
  places: DestinationCard[];
  grid: RunGrid;
  bars: RunBars;
  runs: RunLine[];
}

export interface DestinationCard {
  id: string;
  backend: string;
  how: string;
  url: string | null;
  hasReleases: boolean;
  /** What the newest run did that reached it. */
  last: (Mark & { runId: string; at: Moment; release: string | null }) | null;
}

/** Runs of the grid: as many as a wide window has room for. */
export const gridRuns = 40;
const listedRuns = 20;

/** A pipeline with its newest runs, the newest first. Pure. */
export function pipelineView(state: PipelineState, runs: readonly RunRecord[], now: Date): PipelineView {
  const [card] = overviewView([{ state, runs }], now) as [PipelineCard];
  const ids = state.destinations.map(({ destination_id: id }) => id);
  const { schedule } = state;
  return {
    ...card,
    standing: standingOf(state, now),
    schedule: schedule === null ? null : `${schedule.cron} (${schedule.timezone})`,
    watch: state.watch,
    hasSource: state.source.backend !== 'http_upload',
    places: state.destinations.map((one) => ({
      id: one.destination_id,
      backend: one.backend,
      how: `${one.mapping}, ${one.workflow}`,
      url: one.public_base_url,
      hasReleases: one.layout === 'releases',
      last: lastOf(runs, one.destination_id),
    })),
    grid: runGrid(runs.slice(0, gridRuns), ids, now),
    bars: runBars(runs, now),
    runs: runLines(runs.slice(0, listedRuns), now),
  };
}

function lastOf(runs: readonly RunRecord[], id: string): DestinationCard['last'] {
  for (const run of runs) {
    const found = run.destinations.find((one) => one.destination_id === id);
    if (found !== undefined)
      return {
        ...actionMark(found),
        runId: run.run_id,
        at: momentOf(run.finished_at ?? run.accepted_at),
        release: found.release,
      };
  }
  return null;
}
