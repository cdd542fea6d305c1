import type { Owner } from '../storage/identity.ts';
import type { Occurrence } from '../notify/event.ts';
import type { ReleaseId } from './release.ts';

/** The notification of a switch that a client requested. Pure. */
export function switchOccurrence(
  { pipelineId, destinationId }: Owner,
  { destinationPath, from, to }: { destinationPath: string; from: ReleaseId | null; to: ReleaseId },
  verb: 'rollback' | 'promote',
): Occurrence {
  return {
    type: verb === 'rollback' ? 'release.rolled_back' : 'release.activated',
    data: {
      pipeline_id: pipelineId,
      destination_id: destinationId,
      destination_path: destinationPath,
      release: to,
      previous: from,
    },
  };
}
