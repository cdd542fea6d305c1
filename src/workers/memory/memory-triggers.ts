import type { Trigger } from '../queue/job.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { isDecided, outcomeFor, type TriggeredJob, type TriggerOf, type Triggers } from '../queue/trigger.ts';
import type { Journal } from './journal.ts';

interface MemoryTriggersOptions {
  journal: Journal;
  /** Returns how busy a pipeline is. */
  loadOf: (pipelineId: string) => {
    waiting: number;
    retrying: number;
    running: string | null;
    isPaused: boolean;
  };
  /** Queues the run. If it cannot be accepted, throws an error that explains why. */
  start: (job: TriggeredJob) => Promise<RunRecord>;
}

/**
 * Creates the triggers of a single process. A tick is stored as part of the run it starts, so they cannot get
 * out of sync. All other decisions are written in the background. If one of them gets lost, it is simply made
 * again, with the same result.
 */
export function memoryTriggers({ journal, loadOf, start }: MemoryTriggersOptions): Triggers {
  const lasts = lastTriggers(journal);
  return {
    last: async (pipelineId, kind) =>
      (lasts.get(keyOf(pipelineId, kind)) ?? null) as TriggerOf<typeof kind> | null,
    decide: async (job, { passes = false, latest } = {}) => {
      const { pipelineId, trigger } = job;
      const key = keyOf(pipelineId, trigger.kind);
      const previous = lasts.get(key) ?? null;
      if (isDecided(previous, trigger, latest)) return { outcome: 'known' };
      const outcome = passes ? 'passed' : outcomeFor(trigger, loadOf(pipelineId));
      lasts.set(key, trigger);
      if (outcome !== 'started') {
        journal.saveTrigger(pipelineId, trigger);
        return { outcome, previous };
      }
      try {
        const record = await start(job);
        journal.saveTrigger(pipelineId, trigger);
        return { outcome, record, previous };
      } catch (error) {
        if (lasts.get(key) === trigger) {
          if (previous === null) lasts.delete(key);
          else lasts.set(key, previous);
        }
        throw error;
      }
    },
  };
}

/** Returns the last trigger of each kind and pipeline. Some ticks are only stored as part of their runs. */
function lastTriggers({ triggers, runs }: Journal): Map<string, Trigger> {
  const lasts = new Map(
    triggers.map(({ pipelineId, trigger }) => [keyOf(pipelineId, trigger.kind), trigger]),
  );
  for (const { job } of runs) {
    if (job.staged !== null || job.trigger?.kind !== 'schedule') continue;
    const key = keyOf(job.pipelineId, 'schedule');
    if (!isDecided(lasts.get(key) ?? null, job.trigger)) lasts.set(key, job.trigger);
  }
  return lasts;
}

const keyOf = (pipelineId: string, kind: Trigger['kind']): string => `${kind} ${pipelineId}`;
