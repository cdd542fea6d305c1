import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { Decision, TriggerKind } from '../queue/trigger.ts';

/**
 * Notified of what starts runs by itself, for metrics. Its methods must not throw. Over all hosts each
 * trigger is reported as decided once, by the host that decided it, and each missed tick as missed once.
 */
export interface ScheduleObserver {
  /** The pipeline starts by itself in this way from now on. */
  begun(pipeline: { pipelineId: string; kind: TriggerKind }): void;
  decided(trigger: { pipelineId: string; kind: TriggerKind; outcome: Outcome }): void;
  /** `down`: nobody could start it in time. `paused`: its pipeline was paused. */
  missed(ticks: { pipelineId: string; reason: MissedReason; count: number }): void;
  /** A decided tick in the future was ignored. */
  ignored(pipelineId: string): void;
  /** Whether the source is polled because it cannot be watched. */
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

/** What the work that goes on for as long as a pipeline is configured has in common. */
export interface Enduring {
  clock: Clock;
  log: Log;
  signal: AbortSignal;
}

/**
 * Does the work again every few seconds until it succeeds. A series of failures is logged once, at its first;
 * that the queue is away is its own to log. Rejects with the reason of `signal` once that aborts.
 */
export async function persist<T>(
  { clock, log, signal }: Enduring,
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
