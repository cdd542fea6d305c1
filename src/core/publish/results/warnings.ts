import type { SourceBundle } from '../../bundle/source-bundle.ts';
import type { DestinationConfig } from '../../config/config.ts';
import type { Clock } from '../../lib/clock.ts';
import { isFuture } from '../../lib/clock-skew.ts';
import { type Finding, finding } from '../../lib/errors.ts';
import { describeLocation } from '../../storage/backends.ts';
import { createdInFuture } from './action-result.ts';
import type { ActionResult } from './result.ts';

/*
 * Warnings about a bundle that was published.
 */

/**
 * Warns if the bundle was created in the future. Bundles created between now and then would look older, so
 * they might not be published.
 */
export function createdWarnings(
  { created }: SourceBundle,
  { destinationPath }: ActionResult,
  clock: Clock,
): Finding[] {
  if (!isFuture(Date.parse(created), clock)) return [];
  const message = `target=${destinationPath}: "created" of the bundle is in the future (${created}): until then, bundles that are made now count as older; correct the clock of the producer and publish again`;
  return [finding('warning', createdInFuture, message)];
}

/** Warns if the publication changes files that are too large to be restored after a failure. */
export function unkeptWarnings({ destinationPath, unkept: [first, ...others] }: ActionResult): Finding[] {
  if (first === undefined) return [];
  const what = others.length === 0 ? 'is' : `and ${others.length} more are`;
  const message = `target=${destinationPath}: "${first}" ${what} too large to be restored if the publication fails midway; the next run would finish it`;
  return [finding('warning', 'cannot_be_undone', message, { file: first })];
}

/** Warns if the publication replaces everything at the destination root. */
export function rootWarnings(
  destination: DestinationConfig,
  { action }: ActionResult,
  dryRun: boolean,
): Finding[] {
  if (destination.mapping !== 'fixed' || destination.releases !== null) return [];
  if (action !== 'force_replace' && action !== 'replace_catalog') return [];
  const what =
    action === 'force_replace'
      ? 'everything below the destination root'
      : 'the content that this pipeline published at the destination root';
  const message = `target=.: ${what} ${dryRun ? 'would be' : 'was'} replaced (${describeLocation(destination.location)})`;
  return [finding('warning', 'destination_root_replaced', message)];
}
