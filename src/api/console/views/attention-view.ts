import type { RunRecord } from '../../../workers/queue/run-record.ts';
import type { PipelineState } from '../../pipelines/pipelines-route.ts';
import { ageText, type Mark, type Moment, momentOf, plural, statusMark } from '../record-text.ts';
import { stateMark } from './overview-view.ts';
import { bundleOf, failedText, rerunHelps, type Starter, starterOf } from './run-words.ts';

/** A pipeline whose last finished run failed, or whose Redis does not respond. */
interface AttentionItem {
  pipelineId: string;
  mark: Mark;
  message: string;
  /** The next step; null if the error has no hint. */
  hint: string | null;
  /** The failed run; null if the Redis of the pipeline does not respond. */
  run: FailedRun | null;
}

interface FailedRun {
  id: string;
  bundle: string | null;
  starter: Starter;
  author: string | null;
  at: Moment & { age: string };
  rerunnable: boolean;
  /** Whether a repeated run can succeed. */
  rerunHelps: boolean;
}

export interface Attention {
  heading: string;
  /** The failed runs among the newest of all pipelines. */
  text: string;
  isWell: boolean;
  items: AttentionItem[];
}

/** The failing and the unreachable pipelines, failures first. `runs` are newest first. Pure. */
export function attentionOf(
  pipelines: readonly { state: PipelineState; runs: readonly RunRecord[] }[],
  now: Date,
): Attention {
  const failing = pipelines.flatMap(({ state, runs }) => failureIn(state, runs, now) ?? []);
  const away = pipelines.flatMap(({ state }) => outageOf(state) ?? []);
  const ended = pipelines.flatMap(({ runs }) => runs.filter((run) => run.finished_at !== null));
  const failed = ended.filter(({ status }) => status === 'failed').length;
  const counts = [
    ...(failing.length > 0 ? [`${plural(failing.length, 'pipeline')} failing`] : []),
    ...(away.length > 0 ? [`${plural(away.length, 'pipeline')} unreachable`] : []),
  ];
  return {
    heading: counts.length === 0 ? 'No pipeline is failing' : counts.join(', '),
    text: failedText(failed, ended.length),
    isWell: counts.length === 0,
    items: [...failing, ...away],
  };
}

function failureIn(state: PipelineState, runs: readonly RunRecord[], now: Date): AttentionItem | null {
  const run = runs.find((one) => one.finished_at !== null);
  if (run?.status !== 'failed' || run.finished_at === null || run.error?.code === 'cancelled') return null;
  const error = run.error ?? run.destinations.find((one) => one.error !== null)?.error;
  return {
    pipelineId: state.pipeline_id,
    mark: statusMark(run),
    message: error?.message ?? 'The record has no cause.',
    hint: error?.hint ?? null,
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

/** A pause is deliberate, and the card of the pipeline shows it. */
function outageOf(state: PipelineState): AttentionItem | null {
  if (state.away !== true) return null;
  return {
    ...{ pipelineId: state.pipeline_id, mark: stateMark(state), run: null },
    message: 'The Redis of this pipeline does not respond. Runs wait, and the shown data may be old.',
    hint: 'check the Redis server',
  };
}
