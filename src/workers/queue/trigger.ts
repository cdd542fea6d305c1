import type { SourceJob, Trigger } from './job.ts';
import type { RunRecord } from './run-record.ts';

export type TriggerKind = Trigger['kind'];
export type TriggerOf<K extends TriggerKind> = Extract<Trigger, { kind: K }>;

/**
 * Decides triggers once, on whichever of all hosts comes first. The queue keeps the last trigger of each kind
 * that was decided for a pipeline for as long as it keeps runs: in memory for the life of the process.
 */
export interface Triggers {
  /** The last one that was decided; null if none is known. Throws `queue_unavailable`. */
  last<K extends TriggerKind>(pipelineId: string, kind: K): Promise<TriggerOf<K> | null>;
  /**
   * Decides the trigger of this job, in one step with the acceptance of the run: of all calls about a tick,
   * on all hosts and over kills, one starts a run. Such a run takes no upload slot, since at most one of a
   * pipeline waits. With `passes` no run is started, and the trigger counts as decided. A decided tick later
   * than `latest` (RFC 3339, UTC) is ignored, because it was decided by a clock that was ahead.
   *
   * Throws `shutting_down`, `queue_unavailable` and `insufficient_storage`: the trigger is not decided then,
   * or it is unknown whether it is, and the call may be repeated.
   */
  decide(job: TriggeredJob, options?: { passes?: boolean; latest?: string }): Promise<Decision>;
}

export type TriggeredJob = SourceJob & { trigger: Trigger };

export type Decision =
  | { outcome: 'started'; record: RunRecord; previous: Trigger | null }
  | {
      /**
       * `coalesced`: a run of the pipeline waits that will do, or, of a tick, runs. `paused`: a tick of a
       * pipeline that is paused. `passed`: as `passes` asked for.
       */
      outcome: 'coalesced' | 'paused' | 'passed';
      previous: Trigger | null;
    }
  /** It was decided before: this tick or a later one; or this is the state of the source as it was last. */
  | { outcome: 'known' };

/** Whether a trigger is decided already, after `last` was. Pure; `trigger.lua` decides the same. */
export function isKnown(last: Trigger | null, trigger: Trigger, latest?: string): boolean {
  if (last === null) return false;
  if (last.kind === 'schedule') {
    if (latest !== undefined && last.tick > latest) return false;
    return trigger.kind === 'schedule' && last.tick >= trigger.tick;
  }
  return trigger.kind === 'watch' && last.state === trigger.state;
}

/**
 * What becomes of a trigger that is not decided yet. A tick wants no run beside the one that is under way; a
 * change wants one that begins after it, and one that waits, even for a pause to end or for its next try,
 * will. Pure; `trigger.lua` decides the same.
 */
export function outcomeOf(
  { kind }: Trigger,
  {
    waiting,
    retrying,
    running,
    isPaused,
  }: { waiting: number; retrying: number; running: string | null; isPaused: boolean },
): 'started' | 'coalesced' | 'paused' {
  if (kind === 'schedule' && isPaused) return 'paused';
  return waiting + retrying > 0 || (kind === 'schedule' && running !== null) ? 'coalesced' : 'started';
}
