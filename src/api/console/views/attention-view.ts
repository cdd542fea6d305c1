import type { RunRecord } from '../../../workers/queue/run-record.ts';
import type { PipelineState } from '../../pipelines/pipelines-route.ts';
import { ageText, type Mark, type Moment, momentOf, plural, statusMark } from '../record-text.ts';
import {
  bundleOf,
  failedText,
  forceCommand,
  rerunHelps,
  sentence,
  type Starter,
  starterOf,
} from './run-words.ts';

/** A pipeline whose most recent finished run failed. */
interface AttentionItem {
  pipelineId: string;
  mark: Mark;
  message: string;
  /** A suggested next step; null if the error comes without a hint. */
  hint: string | null;
  /** A command for the next step, to copy. */
  command: string | null;
  run: FailedRun;
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
  isWell: boolean;
  items: AttentionItem[];
}

/** Returns the pipelines that are failing. `runs` must be sorted newest first. */
export function attentionOf(
  pipelines: readonly { state: PipelineState; runs: readonly RunRecord[] }[],
  now: Date,
): Attention {
  const failing = pipelines.flatMap(({ state, runs }) => failureIn(state, runs, now) ?? []);
  const ended = pipelines.flatMap(({ runs }) => runs.filter((run) => run.finished_at !== null));
  const failed = ended.filter(({ status }) => status === 'failed').length;
  const isWell = failing.length === 0;
  return {
    heading: isWell ? 'No pipeline is failing' : `${plural(failing.length, 'pipeline')} failing`,
    text: failedText(failed, ended.length),
    isWell,
    items: failing,
  };
}

function failureIn(state: PipelineState, runs: readonly RunRecord[], now: Date): AttentionItem | null {
  const run = runs.find((one) => one.finished_at !== null);
  if (run?.status !== 'failed' || run.finished_at === null || run.error?.code === 'cancelled') return null;
  const place = run.destinations.find((one) => one.error !== null);
  const error = run.error ?? place?.error;
  return {
    pipelineId: state.pipeline_id,
    mark: statusMark(run),
    message: sentence(error?.message ?? 'The record has no cause.'),
    hint: typeof error?.hint === 'string' ? sentence(error.hint) : null,
    command: place === undefined ? null : forceCommand(run, place.destination_id, error?.hint ?? null),
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
