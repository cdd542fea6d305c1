import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { Decision, TriggerKind } from '../queue/trigger.ts';

/**
 * Notified about triggers, for metrics. Its methods must not throw. Even with several hosts, each trigger is
 * only reported once, by the host that decided it, and so is each missed tick.
 */
export interface ScheduleObserver {
  /** Called when a pipeline that did not have this kind of trigger gets one. */
  begun(pipeline: { pipelineId: string; kind: TriggerKind }): void;
  decided(trigger: { pipelineId: string; kind: TriggerKind; outcome: TriggerOutcome }): void;
  /**
   * Called for missed ticks. `down`: no host was able to start the run in time. `paused`: the pipeline was
   * paused.
   */
  missed(ticks: { pipelineId: string; reason: MissedReason; count: number }): void;
  /** Called when the last decided tick was ignored because it was in the future. */
  ignored(pipelineId: string): void;
  /** Called when a source is polled because it cannot be watched, or when that is no longer necessary. */
  polled(pipelineId: string, isPolled: boolean): void;
}

type TriggerOutcome = Extract<Decision['outcome'], 'started' | 'coalesced'>;
export type MissedReason = 'down' | 'paused';

export const noScheduleObserver: ScheduleObserver = {
  begun: () => undefined,
  decided: () => undefined,
  missed: () => undefined,
  ignored: () => undefined,
  polled: () => undefined,
};

const retryEveryMs = 5_000;

/** Options for work in the background that goes on for as long as a pipeline is configured. */
export interface BackgroundTask {
  clock: Clock;
  log: Log;
  signal: AbortSignal;
}

/**
 * Repeats the work every few seconds until it succeeds. If it keeps failing, only the first failure is
 * logged. The queue logs its own outages. When `signal` aborts, throws the signal's reason.
 */
export async function retryUntilDone<T>(
  { clock, log, signal }: BackgroundTask,
  fields: Record<string, unknown>,
  work: () => Promise<T>,
): Promise<T> {
  for (let isFirst = true; ; isFirst = false) {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      if (isFirst && !hasCode(error, 'queue_unavailable') && !hasCode(error, 'shutting_down'))
        log.error({ ...fields, err: error }, 'a run could not be started automatically; it is tried again');
    }
    await clock.sleep(retryEveryMs, signal);
  }
}
