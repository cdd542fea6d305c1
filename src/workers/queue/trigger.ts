import type { SourceJob, Trigger } from './job.ts';
import type { RunRecord } from './run-record.ts';

export type TriggerKind = Trigger['kind'];
export type TriggerOf<K extends TriggerKind> = Extract<Trigger, { kind: K }>;

/**
 * Decides each trigger once, on the first host that reaches it. The queue keeps each pipeline's last decided
 * trigger of each kind as long as it keeps runs. For an in-memory queue, that is the lifetime of the process.
 */
export interface Triggers {
  /** Returns the last decided trigger, or null if none is known. Throws `queue_unavailable`. */
  last<K extends TriggerKind>(pipelineId: string, kind: K): Promise<TriggerOf<K> | null>;
  /**
   * Decides this job's trigger and accepts its run in one step. Of all calls for the same tick, on all hosts
   * and across crashes, only one starts a run. The run takes no upload slot, because a pipeline has at most
   * one such run waiting. With `passes` the trigger counts as decided, but no run starts. A decided tick
   * after `latest` (RFC 3339, UTC) is ignored, because a host with a fast clock decided it.
   *
   * Throws `shutting_down`, `queue_unavailable` and `insufficient_storage`. The trigger may or may not have
   * been decided then, and the call can be repeated.
   */
  decide(job: TriggeredJob, options?: { passes?: boolean; latest?: string }): Promise<Decision>;
}

export type TriggeredJob = SourceJob & { trigger: Trigger };

export type Decision =
  | { outcome: 'started'; record: RunRecord; previous: Trigger | null }
  | {
      /**
       * `coalesced`: a waiting run covers the trigger. For a tick, so does a running one. `paused`: the
       * tick's pipeline is paused. `passed`: the caller set `passes`.
       */
      outcome: 'coalesced' | 'paused' | 'passed';
      previous: Trigger | null;
    }
  /** Already decided: this tick or a later one, or the last known state of the source. */
  | { outcome: 'known' };

/**
 * Reports whether a trigger is already decided, given the `last` decided one. `trigger.lua` is equivalent.
 */
export function isKnown(last: Trigger | null, trigger: Trigger, latest?: string): boolean {
  if (last === null) return false;
  if (last.kind === 'schedule') {
    if (latest !== undefined && last.tick > latest) return false;
    return trigger.kind === 'schedule' && last.tick >= trigger.tick;
  }
  return trigger.kind === 'watch' && last.state === trigger.state;
}

/**
 * Returns the outcome of an undecided trigger. A tick does not start a run while another is in progress. A
 * change needs a run that starts after it. A waiting run is enough, even in a paused pipeline or before a
 * retry. `trigger.lua` is equivalent.
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
