import type { PipelineResult } from '../../../core/publish/results/result.ts';
import type { Output } from '../../output/output.ts';

/** The exit code of a publication in which nothing failed, and readers still have another release. */
export const heldBackExitCode = 3;

/**
 * Reports every bundle that was not published because its release was rolled back, with the command that
 * brings it back. `configured` are the options that name the configuration there. True if there are any.
 */
export function reportHeldBack(
  pipelines: readonly PipelineResult[],
  output: Output,
  configured: string,
): boolean {
  let isAny = false;
  for (const { pipelineId, destinations } of pipelines)
    for (const { destinationId, actions } of destinations)
      for (const { reason, release, destinationPath } of actions) {
        if (reason?.code !== 'rolled_back' || release === null) continue;
        isAny = true;
        const place = destinationPath === '.' ? destinationId : `${destinationId}, ${destinationPath}`;
        const path = destinationPath === '.' ? '' : ` --path ${destinationPath}`;
        output.note(
          `${place}: readers still have another release, because ${release} was rolled back; to publish it: waybill releases promote ${release} ${configured} --pipeline ${pipelineId} --destination ${destinationId}${path}`,
        );
      }
  return isAny;
}
