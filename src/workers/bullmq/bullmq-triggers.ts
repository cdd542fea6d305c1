import type { Clock } from '../../core/lib/clock.ts';
import type { Trigger } from '../queue/job.ts';
import { shuttingDown } from '../queue/refusals.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { acceptedRun, queuedRun } from '../queue/run-transitions.ts';
import type { Decision, TriggeredJob, TriggerKind, TriggerOf, Triggers } from '../queue/trigger.ts';
import type { JobSeal } from './job-seal.ts';
import { isTrigger, jsonOf } from './job-shape.ts';
import type { RedisLink } from './link.ts';
import type { RunScript } from './scripts.ts';

/** Stores the triggers of all hosts. Every call is a single atomic step in Redis. */
export interface TriggerStore {
  /** See `Triggers.last`. */
  lastTrigger(pipelineId: string, kind: TriggerKind): Promise<Trigger | null>;
  /** Like `Triggers.decide`, except that the caller supplies the run's first record. */
  trigger(
    job: TriggeredJob,
    record: RunRecord,
    options: { passes: boolean; latest: string | undefined },
  ): Promise<Decision>;
}

/** @param key Maps a name used in the scripts to its Redis key. */
export function triggerStore(
  { ask, redis }: RedisLink,
  run: RunScript,
  key: (name: string) => string,
  seal: JobSeal,
): TriggerStore {
  return {
    lastTrigger: async (pipelineId, kind) => {
      const found = await ask(() => redis.hget(key(`triggers:${kind}`), pipelineId));
      return triggerOf(found);
    },
    trigger: async (job, record, { passes, latest = '' }) => {
      const [outcome, before] = (await run('trigger', {
        runId: job.runId,
        pipeline: job.pipelineId,
        trigger: JSON.stringify(job.trigger),
        job: seal.seal(job),
        record: JSON.stringify(record),
        passes: Number(passes),
        latest,
      })) as [Decision['outcome'], string?];
      if (outcome === 'known') return { outcome };
      const previous = triggerOf(before);
      return outcome === 'started' ? { outcome, record, previous } : { outcome, previous };
    },
  };
}

/**
 * Decides on triggers in Redis. We don't use BullMQ's job schedulers, because they only compute the next tick
 * when a worker picks up the previous one. After an outage, they therefore always catch up on exactly one
 * tick. Their jobs are also stored apart from our run records, while here the tick and its run are written in
 * one step.
 */
export function bullmqTriggers(options: {
  clock: Clock;
  store: TriggerStore;
  isOpen: () => boolean;
  /** Called once the run has been stored in Redis. */
  onAccepted: (pipelineId: string) => Promise<void>;
}): Triggers {
  const { clock, store, isOpen, onAccepted } = options;
  return {
    last: async (pipelineId, kind) =>
      (await store.lastTrigger(pipelineId, kind)) as TriggerOf<typeof kind> | null,
    decide: async (job, { passes = false, latest } = {}) => {
      if (!isOpen()) throw shuttingDown();
      const accepted = acceptedRun(job, clock.now());
      const decision = await store.trigger(job, queuedRun(accepted, clock.now()), {
        passes,
        latest,
      });
      if (decision.outcome !== 'started') return decision;
      await onAccepted(job.pipelineId);
      return { ...decision, record: accepted };
    },
  };
}

/** Parses a stored trigger. Returns null if there isn't one, or if another program has overwritten it. */
function triggerOf(text: string | null | undefined): Trigger | null {
  const value = jsonOf(text ?? '');
  return isTrigger(value) ? value : null;
}
