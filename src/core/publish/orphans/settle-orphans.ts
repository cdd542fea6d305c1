import type { DestinationConfig } from '../../config/config.ts';
import type { CoreContext } from '../../context.ts';
import { errorRecord, hasCode, WaybillError, finding } from '../../lib/errors.ts';
import { withReleasers } from '../../lib/lifecycle.ts';
import type { Storage } from '../../storage/storage.ts';
import type { PublishRequest } from '../publish-request.ts';
import { refuseRemovals } from '../refusals/removal-limit.ts';
import { withDestinationFailure } from '../results/action-result.ts';
import type { DestinationResult, OrphanResult } from '../results/result.ts';
import { unpublishListed } from '../root-index/unpublish-listed.ts';
import { findOrphans, type FoundOrphans, type Orphan } from './find-orphans.ts';
import { heldPaths, isFromSource, isHeld, type PublishedFrom, type SourceListing } from './orphan.ts';

export interface OrphanTask {
  destination: DestinationConfig;
  from: PublishedFrom;
  /** The listing from which the bundles were selected. */
  listing: SourceListing;
  /** Lists the source again. */
  listAgain: () => Promise<SourceListing>;
  /** Whether any part of the pipeline failed. Nothing is removed in this case. */
  hasFailed: boolean;
}

/**
 * Reports or removes orphans: bundles that the source no longer has. The `orphans` setting of the destination
 * decides. Bundle paths are unpublished one after another, each as a separate attempt. A bundle must be
 * missing from two listings, before and after the publications, and its catalog must not have changed since
 * it was found. Never throws: a failure is in the returned result.
 */
export async function settleOrphans(
  context: CoreContext,
  task: OrphanTask,
  result: DestinationResult,
  request: PublishRequest,
): Promise<DestinationResult> {
  const { destination } = task;
  if (destination.orphans === 'keep' || result.error !== null || context.signal?.aborted === true)
    return result;
  const orphans: OrphanResult[] = [];
  try {
    await withReleasers(async (onRelease) => {
      const { dryRun } = request;
      const readOnly = dryRun || destination.orphans === 'report';
      const root = await context.openStorage(destination.location, { readOnly, dryRun });
      onRelease(() => root.close());
      await settleAt(context, root, task, request, { ...result, orphans });
    });
  } catch (error) {
    context.log.error({ err: error, destination: destination.id }, 'settling orphans failed');
    return withDestinationFailure({ ...result, orphans }, destination, errorRecord(error));
  }
  const isFailed = orphans.some(({ error }) => error !== null);
  return { ...result, orphans, status: isFailed ? 'failed' : result.status };
}

async function settleAt(
  context: CoreContext,
  root: Storage,
  task: OrphanTask,
  request: PublishRequest,
  { orphans, warnings }: DestinationResult,
): Promise<void> {
  const { destination, from, listing, hasFailed } = task;
  const found = await findOrphans(root, from, heldPaths(listing), {
    counted: destination.orphans === 'remove' && destination.limits.maxRemoved !== null,
  });
  if (found.orphans.length === 0) return;
  if (destination.orphans === 'report' || hasFailed) {
    orphans.push(...found.orphans.map(reported));
    if (destination.orphans === 'remove')
      warnings.push(finding('warning', 'orphans_not_removed', notAfterFailure));
    return;
  }
  refuseRemoval(task, found, listing, request);
  const latest = request.dryRun ? listing : await task.listAgain();
  if (latest !== listing) refuseRemoval(task, found, latest, request);
  const held = heldPaths(latest);
  for (const orphan of found.orphans) {
    if (context.signal?.aborted === true) break;
    if (isHeld(held, orphan.destinationPath)) continue;
    const settled = await remove(context, root, task, orphan, request);
    if (settled !== null) orphans.push(settled);
  }
}

const notAfterFailure = 'orphans are kept until the rest of the pipeline succeeds';

/**
 * Enforces `limits.max_removed`, and refuses removals if the source has no bundles at all: more often a mount
 * is missing than that everything should be removed. Throws `too_many_removals`.
 */
function refuseRemoval(
  { destination: { limits } }: OrphanTask,
  { orphans, counts }: FoundOrphans,
  { candidates, invalid }: SourceListing,
  { allowRemovals }: PublishRequest,
): void {
  if (allowRemovals === true) return;
  refuseRemovals(limits.maxRemoved, { ...counts, where: 'orphans of the destination' });
  if (candidates.length + invalid.length > 0) return;
  const what = orphans.length === 1 ? 'is an orphan' : `and ${orphans.length - 1} more are orphans`;
  throw new WaybillError(
    'too_many_removals',
    `the source has no bundles, so "${orphans[0]?.destinationPath ?? ''}" ${what}; none was removed`,
    { hint: 'check the location of the source; to remove everything, run once with --allow-removals' },
  );
}

/** null if another process has already removed it. */
async function remove(
  context: CoreContext,
  root: Storage,
  { destination, from }: OrphanTask,
  orphan: Orphan,
  { dryRun, runId, onOrphan, leaseTimes }: PublishRequest,
): Promise<OrphanResult | null> {
  const { destinationPath, layout, generation, updatedAt } = orphan;
  try {
    const { outputs, bytes } = await unpublishListed(context, root, destination, {
      owner: from.owner,
      destinationPath,
      layout,
      dryRun,
      concurrency: destination.fileConcurrency,
      // Already checked for the whole destination.
      maxRemoved: null,
      orphan: {
        runId: runId ?? null,
        isStill: (catalog) =>
          catalog.generation === generation &&
          catalog.updatedAt === updatedAt &&
          isFromSource(catalog, from, destinationPath),
        onDecided: onOrphan,
      },
      ...(leaseTimes === undefined ? {} : { leaseTimes }),
    });
    return { ...reported(orphan), outputs, bytes, action: 'unpublish' };
  } catch (error) {
    if (hasCode(error, 'not_published')) return null;
    context.log.error({ err: error, destination: destination.id, destinationPath }, 'orphan not removed');
    return { ...reported(orphan), action: 'error', error: errorRecord(error) };
  }
}

function reported({ destinationPath, bundle, outputs, bytes }: Orphan): OrphanResult {
  return {
    destinationPath,
    bundle: bundle === null ? null : { path: bundle.source.path, created: bundle.created },
    outputs,
    bytes,
    action: 'keep',
    error: null,
  };
}
