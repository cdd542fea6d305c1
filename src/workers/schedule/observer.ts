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

export type Outcome = Extract<Decision['outcome'], 'started' | 'coalesced'>;
export type MissedReason = 'down' | 'paused';

export const unobserved: ScheduleObserver = {
  begun: () => undefined,
  decided: () => undefined,
  missed: () => undefined,
  ignored: () => undefined,
  polled: () => undefined,
};
