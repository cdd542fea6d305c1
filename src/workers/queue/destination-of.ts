import type { DestinationResult } from '../../core/publish/results/result.ts';
import { publicError, withoutPaths } from '../../core/lib/errors.ts';
import type { RunDestination } from './run-record.ts';

/*
 * What a record says of a destination. Records are readable without a token, so that texts go through
 * `publicError` and `withoutPaths`. Pure.
 */

/** So many paths stand in a record, which is kept for each run of a day and sent with each of its changes. */
export const mostChanges = 20;

/** The rows of a destination: one for each bundle, and one for a failure of the destination as a whole. */
export function destinationsOfResult({ destinationId, actions }: DestinationResult): RunDestination[] {
  return actions.map((action) => destinationOfAction(destinationId, action));
}

/** The row of one action at a destination. */
export function destinationOfAction(
  destinationId: string,
  result: DestinationResult['actions'][number],
): RunDestination {
  const { reason, error } = result;
  const changes = result.changes.filter(({ fate }) => fate !== 'keep');
  return {
    destination_id: destinationId,
    action: result.action,
    reason: reason === null ? null : { code: reason.code, message: withoutPaths(reason.message) },
    destination_path: result.destinationPath,
    release: result.release,
    url: result.url,
    outputs_written: result.outputsWritten,
    outputs_linked: result.outputsLinked,
    outputs_kept: result.outputsKept,
    outputs_removed: result.outputsRemoved,
    bytes_written: result.bytesWritten,
    bytes_linked: result.bytesLinked,
    bytes_kept: result.bytesKept,
    changes: changes.slice(0, mostChanges).map(({ path, fate, why }) => ({ path, fate, why })),
    changes_omitted: Math.max(0, changes.length - mostChanges),
    error: error === null ? null : publicError(error),
  };
}
