import type { ActionResult, DestinationResult } from '../../core/publish/results/result.ts';
import { publicError, withoutPaths } from '../../core/public-error.ts';
import type { RunDestination } from '../run-record.ts';

/*
 * What a record says of a destination. Records are readable without a token, so that texts go through
 * `publicError` and `withoutPaths`. Pure.
 */

/** So many paths stand in a record, which is kept for each run of a day and sent with each of its changes. */
export const mostChanges = 20;

/** The rows of a destination: one for each bundle, and one for what failed as a whole. */
export function destinationsOfResult(destination: DestinationResult): RunDestination[] {
  const { destinationId, actions, error } = destination;
  const rows = actions.map((action) => destinationOfAction(destinationId, action));
  if (error === null) return rows;
  return [...rows, { ...nothingDone, destination_id: destinationId, error: publicError(error) }];
}

/** What a bundle came to at a destination. */
export function destinationOfAction(destinationId: string, result: ActionResult): RunDestination {
  const { reason, error } = result;
  const changes = result.changes.filter(({ fate }) => fate !== 'keep');
  return {
    destination_id: destinationId,
    action: result.action,
    reason: reason === null ? null : { code: reason.code, message: withoutPaths(reason.message) },
    destination_path: result.destinationPath,
    release: result.release,
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

const nothingDone: Omit<RunDestination, 'destination_id'> = {
  action: 'error',
  reason: null,
  destination_path: null,
  release: null,
  outputs_written: 0,
  outputs_linked: 0,
  outputs_kept: 0,
  outputs_removed: 0,
  bytes_written: 0,
  bytes_linked: 0,
  bytes_kept: 0,
  changes: [],
  changes_omitted: 0,
  error: null,
};
