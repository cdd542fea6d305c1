import type { ActEntry, Actor } from '../audit/record.ts';
import type { Occurrence } from './event.ts';

/**
 * The actor for what the program does on its own or during a run. The record of the run's start says who
 * asked for it.
 */
export const programActor: Actor = { type: 'daemon', id: null };

/**
 * Returns the record for a bundle that a run published, or null for any other event. Requests and commands
 * that switch releases, prune or unpublish write records of their own.
 */
export function auditEntryOf({ type, data }: Occurrence, actor: Actor): ActEntry | null {
  if (type === 'bundle.published') {
    const { action, destination_path, release, channel, counts } = data;
    const { outputs_written, outputs_removed } = counts;
    return {
      act: 'publish',
      result: 'done',
      actor,
      ...placeOf(data),
      detail: { action, path: destination_path, release, channel, outputs_written, outputs_removed },
    };
  }
  if (type === 'bundle.publish_failed') {
    const { action, destination_path, error } = data;
    return {
      act: 'publish',
      result: 'failed',
      code: error.code,
      actor,
      ...placeOf(data),
      detail: { action, path: destination_path },
    };
  }
  if (type !== 'bundle.unpublished' || data.reason !== 'orphan') return null;
  return {
    act: 'unpublish',
    result: 'done',
    actor,
    ...placeOf(data),
    detail: {
      reason: data.reason,
      path: data.destination_path,
      outputs_removed: data.counts.outputs_removed,
    },
  };
}

function placeOf(data: {
  pipeline_id: string;
  destination_id: string | null;
  run_id: string | null;
}): Pick<ActEntry, 'pipelineId' | 'destinationId' | 'runId'> {
  return { pipelineId: data.pipeline_id, destinationId: data.destination_id, runId: data.run_id };
}
