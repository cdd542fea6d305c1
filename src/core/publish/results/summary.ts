import type { Action } from '../plan.ts';
import type { Counters, PipelineResult } from './result.ts';

/** Counts the actions of all destinations by label, and the destinations that failed. Pure. */
export function countActions(pipelines: readonly PipelineResult[]): Counters {
  const counters: Counters = {
    publish_new: 0,
    upsert_additive: 0,
    replace_catalog: 0,
    skip_same: 0,
    force_replace: 0,
    fail_unmanaged: 0,
    fail_conflict: 0,
    failed_destinations: 0,
  };
  for (const { destinations } of pipelines)
    for (const { actions, status } of destinations) {
      if (status === 'failed') counters.failed_destinations += 1;
      for (const { action } of actions) if (action !== 'error') counters[action satisfies Action] += 1;
    }
  return counters;
}

/** Whether no pipeline failed, or would fail in a dry run. Pure. */
export function allSucceeded(pipelines: readonly PipelineResult[]): boolean {
  return pipelines.every(({ status }) => status !== 'failed');
}
