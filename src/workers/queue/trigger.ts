import type { SourceJob, Trigger } from './job.ts';
import type { RunRecord } from './run-record.ts';

export type TriggerKind = Trigger['kind'];
export type TriggerOf<K extends TriggerKind> = Extract<Trigger, { kind: K }>;

/**
 * Makes sure that each trigger is only acted on once, by whichever host gets to it first. For each pipeline
 * and kind of trigger, the queue remembers the last one. It does so for as long as it keeps runs, so an
 * in-memory queue forgets them when the process ends.
 */
export interface Triggers {
  /** Returns the last trigger that was decided, or null if there is none. Throws `queue_unavailable`. */
  last<K extends TriggerKind>(pipelineId: string, kind: K): Promise<TriggerOf<K> | null>;
  /**
   * Decides what to do about the job's trigger, and accepts its run if there should be one. This is a single
   * atomic step. No matter how many hosts make the call for the same tick, and even if some of them crash,
   * only one run is started. The run does not need an upload slot, since a pipeline never has more than one
   * such run waiting. With `passes`, the trigger is recorded as decided without starting a run. If the last
   * decided tick is later than `latest` (RFC 3339, UTC), it was decided by a host whose clock is fast, and is
   * ignored.
   *
   * Throws `shutting_down`, `queue_unavailable`, or `insufficient_storage`. In that case, the trigger may
   * have been decided or not, and it is safe to call this again.
   */
  decide(job: TriggeredJob, options?: { passes?: boolean; latest?: string }): Promise<Decision>;
}

export type TriggeredJob = SourceJob & { trigger: Trigger };

export type Decision =
  | { outcome: 'started'; record: RunRecord; previous: Trigger | null }
  | {
      /**
       * `coalesced`: there is already a run waiting that covers this trigger (for a tick, a run in progress
       * counts, too). `paused`: the pipeline of the tick is paused. `passed`: the caller has set `passes`.
       */
      outcome: 'coalesced' | 'paused' | 'passed';
      previous: Trigger | null;
    }
  /** It has already been decided: this tick or a later one, or the same state of the source. */
  | { outcome: 'known' };

/**
 * Reports whether a trigger has already been decided, given the `last` one that was. `trigger.lua` does the
 * same.
 */
export function isDecided(last: Trigger | null, trigger: Trigger, latest?: string): boolean {
  if (last === null) return false;
  if (last.kind === 'schedule') {
    if (latest !== undefined && last.tick > latest) return false;
    return trigger.kind === 'schedule' && last.tick >= trigger.tick;
  }
  return trigger.kind === 'watch' && last.state === trigger.state;
}

/**
 * Decides what to do about a trigger. A tick does not start a run while another one is in progress. A change
 * needs a run that starts after the change. If such a run is already waiting, that is enough, even if the
 * pipeline is paused or the run waits to be retried. `trigger.lua` does the same.
 */
export function outcomeFor(
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
