import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { Decision, TriggerKind } from '../queue/trigger.ts';

/**
 * Receives trigger events, for metrics. Its methods must not throw. Across all hosts, each trigger is
 * reported as decided once, by the host that decided it. Each missed tick is reported once.
 */
export interface ScheduleObserver {
  /** Called when the pipeline starts to have this kind of trigger. */
  begun(pipeline: { pipelineId: string; kind: TriggerKind }): void;
  decided(trigger: { pipelineId: string; kind: TriggerKind; outcome: Outcome }): void;
  /**
   * Called for missed ticks. `down`: no host could start the run in time. `paused`: the pipeline was paused.
   */
  missed(ticks: { pipelineId: string; reason: MissedReason; count: number }): void;
  /** Called when a decided tick in the future was ignored. */
  ignored(pipelineId: string): void;
  /** Called with whether the source is polled because it cannot be watched. */
  polled(pipelineId: string, isPolled: boolean): void;
}

type Outcome = Extract<Decision['outcome'], 'started' | 'coalesced'>;
export type MissedReason = 'down' | 'paused';

export const unobserved: ScheduleObserver = {
  begun: () => undefined,
  decided: () => undefined,
  missed: () => undefined,
  ignored: () => undefined,
  polled: () => undefined,
};

const retryEveryMs = 5_000;

/** Common options of work that continues as long as a pipeline is configured. */
export interface BackgroundTask {
  clock: Clock;
  log: Log;
  signal: AbortSignal;
}

/**
 * Retries the work every few seconds until it succeeds. Logs the first failure of a series. The queue logs
 * its own outages. Throws the reason of `signal` when it aborts.
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
        log.error({ ...fields, err: error }, 'a run could not be started by itself; it is tried again');
    }
    await clock.sleep(retryEveryMs, signal);
  }
}
