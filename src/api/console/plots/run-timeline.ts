import type { RunRecord } from '../../../workers/queue/run-record.ts';
import { durationText, momentOf, type Tone } from '../words.ts';

/** The life of a run: what it has gone through, how long each part took, and what is still to come. */
export interface RunTimeline {
  steps: {
    label: string;
    tone: Tone;
    /** Null: not yet. */
    at: { iso: string; text: string } | null;
    /** How long it stayed there; null where it is, or is not yet. */
    lasted: string | null;
    state: 'done' | 'current' | 'ahead';
  }[];
}

/** Pure. */
export function runTimeline(run: RunRecord, now: Date): RunTimeline {
  const isOver = run.finished_at !== null;
  const end = run.finished_at;
  const last = { label: isOver ? run.status : 'done', tone: toneOf(run), at: end };
  const marks: { label: string; tone: Tone; at: string | null }[] = [
    { label: 'accepted', tone: 'waiting', at: run.accepted_at },
    { label: 'queued', tone: 'waiting', at: run.queued_at },
    { label: 'running', tone: 'running', at: run.started_at },
    last,
  ];
  return {
    steps: marks.map(({ label, tone, at }, index) => {
      const next = marks.slice(index + 1).find((one) => one.at !== null)?.at ?? null;
      const isCurrent = at !== null && next === null;
      const until = next === null ? now.getTime() : Date.parse(next);
      return {
        label,
        tone,
        at: at === null ? null : { iso: at, text: momentOf(at).text.slice(-12) },
        lasted: at === null || index === 3 ? null : durationText(until - Date.parse(at)),
        state: at === null ? 'ahead' : isCurrent ? 'current' : 'done',
      };
    }),
  };
}

function toneOf({ status, error }: RunRecord): Tone {
  if (error?.code === 'cancelled') return 'warning';
  return status === 'succeeded' ? 'success' : status === 'failed' ? 'failure' : 'neutral';
}
