import type { ErrorRecord } from '../../../core/lib/errors.ts';
import type { RunRecord } from '../../../workers/queue/run-record.ts';
import type { PipelineState } from '../../pipelines/pipelines-route.ts';
import { ageText, type Mark, type Moment, momentOf, plural, statusMark } from '../record-text.ts';
import { type ErrorView, errorView, sentence } from './error-view.ts';
import { bundleOf, failedText, rerunHelps, type Starter, starterOf } from './run-words.ts';

/** A pipeline whose most recent finished run failed. */
interface AttentionItem {
  pipelineId: string;
  /** The destination that failed; null if the whole run failed. */
  destinationId: string | null;
  mark: Mark;
  error: ErrorView;
  run: FailedRun;
}

/** A paused pipeline, whose runs wait. */
interface PausedItem {
  pipelineId: string;
  since: Moment & { age: string };
  /** Ends with a period; null if none was given. */
  reason: string | null;
  waiting: number;
}

/** A notifier with events that it could not deliver. */
export interface UndeliveredItem {
  notifierId: string;
  count: number;
  /** Why the newest delivery failed. */
  reason: string;
}

interface FailedRun {
  id: string;
  bundle: string | null;
  starter: Starter;
  author: string | null;
  at: Moment & { age: string };
  rerunnable: boolean;
  /** Whether running it again without changes could succeed. */
  rerunHelps: boolean;
}

export interface Attention {
  heading: string;
  /** For example, `11 of the last 22 runs failed`, counting the newest runs of all pipelines. */
  text: string;
  mark: Pick<Mark, 'tone' | 'symbol'>;
  items: AttentionItem[];
  paused: PausedItem[];
  undelivered: readonly UndeliveredItem[];
}

/** Returns what is failing or paused. `runs` must be sorted newest first. */
export function attentionOf(
  pipelines: readonly { state: PipelineState; runs: readonly RunRecord[] }[],
  now: Date,
  undelivered: readonly UndeliveredItem[] = [],
): Attention {
  const failing = pipelines.flatMap(({ state, runs }) => failureIn(state, runs, now) ?? []);
  const paused = pipelines.flatMap(({ state }) => pauseIn(state, now) ?? []);
  const ended = pipelines.flatMap(({ runs }) => runs.filter((run) => run.finished_at !== null));
  const failed = ended.filter(({ status }) => status === 'failed').length;
  return {
    heading: headingOf(failing.length, paused.length, undelivered),
    text: failedText(failed, ended.length),
    mark:
      failing.length + undelivered.length > 0
        ? { tone: 'failure', symbol: '✕' }
        : paused.length > 0
          ? { tone: 'warning', symbol: '‖' }
          : { tone: 'success', symbol: '✓' },
    items: failing,
    paused,
    undelivered,
  };
}

/** Returns for example `1 pipeline failing, 1 paused, 2 undelivered events`. */
function headingOf(failing: number, paused: number, undelivered: readonly UndeliveredItem[]): string {
  const events = undelivered.reduce((sum, { count }) => sum + count, 0);
  const parts = [
    failing === 0 ? [] : [`${plural(failing, 'pipeline')} failing`],
    paused === 0 ? [] : [`${failing === 0 ? plural(paused, 'pipeline') : paused} paused`],
    events === 0 ? [] : [plural(events, 'undelivered event')],
  ].flat();
  return parts.length === 0 ? 'No pipeline is failing' : parts.join(', ');
}

function pauseIn({ pipeline_id: pipelineId, paused, waiting }: PipelineState, now: Date): PausedItem | null {
  if (paused === null) return null;
  const { since, reason } = paused;
  return {
    ...{ pipelineId, waiting },
    since: { ...momentOf(since), age: ageText(since, now) },
    reason: reason === null ? null : sentence(reason.replace(/\.?$/, '.')),
  };
}

const unknownError: ErrorRecord = {
  ...{ code: 'internal_error', message: 'the record has no cause', hint: null },
  ...{ retryable: false, findings: [] },
};

function failureIn(state: PipelineState, runs: readonly RunRecord[], now: Date): AttentionItem | null {
  const run = runs.find((one) => one.finished_at !== null);
  if (run?.status !== 'failed' || run.finished_at === null || run.error?.code === 'cancelled') return null;
  const failed = run.destinations.find((one) => one.error !== null);
  const error = run.error ?? failed?.error ?? unknownError;
  const id = run.error === null ? failed?.destination_id : undefined;
  return {
    pipelineId: state.pipeline_id,
    destinationId: id ?? null,
    mark: statusMark(run),
    error: errorView(error),
    run: {
      id: run.run_id,
      bundle: bundleOf(run),
      starter: starterOf(run),
      author: run.revision?.author ?? null,
      at: { ...momentOf(run.finished_at), age: ageText(run.finished_at, now) },
      rerunnable: run.rerunnable,
      rerunHelps: rerunHelps(run),
    },
  };
}
