import type { RunRecord } from '../../../workers/queue/run-record.ts';
import { failureOf } from './overview-view.ts';
import { ageText, durationOf, durationText, momentOf, statusMark, type Mark, type Moment } from '../words.ts';

/** One run in a list. */
export interface RunLine {
  id: string;
  pipelineId: string;
  status: Mark;
  trigger: string;
  channel: string | null;
  accepted: Moment & { age: string };
  duration: string | null;
  error: { code: string; message: string } | null;
}

/** Runs of a page, as they come. Pure. */
export function runLines(runs: readonly RunRecord[], now: Date): RunLine[] {
  return runs.map((run) => {
    const duration = durationOf(run, now);
    return {
      id: run.run_id,
      pipelineId: run.pipeline_id,
      status: statusMark(run),
      trigger: run.triggered_by.kind,
      channel: run.channel,
      accepted: { ...momentOf(run.accepted_at), age: ageText(run.accepted_at, now) },
      duration: duration === null ? null : durationText(duration),
      error: failureOf(run),
    };
  });
}
