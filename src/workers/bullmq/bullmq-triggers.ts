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

/** The triggers of all hosts. Each call is one atomic step in Redis. */
export interface TriggerStore {
  /** See `Triggers.last`. */
  lastTrigger(pipelineId: string, kind: TriggerKind): Promise<Trigger | null>;
  /** Like `Triggers.decide`, but takes the run's first record. */
  trigger(
    job: TriggeredJob,
    record: RunRecord,
    options: { passes: boolean; latest: string | undefined },
  ): Promise<Decision>;
}

/** @param key Returns the Redis key of a name in the scripts. */
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
 * Triggers do not use BullMQ's job schedulers. Those compute the next tick when a worker takes the last one,
 * so after an outage they always catch up exactly one tick. Their jobs also live outside the store that has
 * the records. Here, the tick and its run are one step in Redis.
 */
export function bullmqTriggers(options: {
  clock: Clock;
  store: TriggerStore;
  isOpen: () => boolean;
  /** Called once the run is in the store. */
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

/** Returns null if there is none, or if another program has replaced it. */
function triggerOf(text: string | null | undefined): Trigger | null {
  const value = jsonOf(text ?? '');
  return isTrigger(value) ? value : null;
}
