import type { RunRecord } from '../../../workers/run-record.ts';
import type { PipelineState } from '../../runs/pipelines-route.ts';
import { runBars, type RunBars } from '../plots/run-bars.ts';
import { ageText, momentOf, statusMark, type Mark, type Moment } from '../words.ts';

export interface PipelineCard {
  id: string;
  source: string;
  state: Mark;
  pauseReason: string | null;
  lastSuccess: (Moment & { age: string; runId: string }) | null;
  nextRun: (Moment & { age: string }) | null;
  waiting: number;
  destinations: number;
  /** The last run's error, if it failed. */
  error: { runId: string; code: string; message: string } | null;
  trend: RunBars;
}

/** How pipelines stand, with their last runs, the newest first. Pure. */
export function overviewView(
  pipelines: readonly { state: PipelineState; runs: readonly RunRecord[] }[],
  now: Date,
): PipelineCard[] {
  return pipelines.map(({ state, runs }) => ({
    id: state.pipeline_id,
    source: sourceText(state.source.backend),
    state: stateMark(state),
    pauseReason: state.paused?.reason ?? null,
    lastSuccess:
      state.last_success === null
        ? null
        : {
            ...momentOf(state.last_success.finished_at),
            age: ageText(state.last_success.finished_at, now),
            runId: state.last_success.run_id,
          },
    nextRun:
      state.next_run === null ? null : { ...momentOf(state.next_run), age: ageText(state.next_run, now) },
    waiting: state.waiting,
    destinations: state.destinations.length,
    error: failureOf(state.last_run),
    trend: runBars(runs, now),
  }));
}

/** What a pipeline is doing, or what its last run came to. Pure. */
export function stateMark({
  paused,
  running,
  last_run: last,
}: Pick<PipelineState, 'paused' | 'running' | 'last_run'>): Mark {
  if (running !== null) return { label: 'running', tone: 'running', symbol: '▸' };
  if (paused !== null) return { label: 'paused', tone: 'warning', symbol: '❚❚' };
  return last === null ? { label: 'no runs yet', tone: 'neutral', symbol: '·' } : statusMark(last);
}

/** What a run failed with: of its own, or of the first destination that did. Pure. */
export function failureOf(run: RunRecord | null): { runId: string; code: string; message: string } | null {
  if (run?.status !== 'failed') return null;
  const error = run.error ?? run.destinations.find((one) => one.error !== null)?.error ?? null;
  return error === null ? null : { runId: run.run_id, code: error.code, message: error.message };
}

export function sourceText(backend: string): string {
  return backend === 'http_upload' ? 'takes uploads' : `reads ${backend}`;
}
