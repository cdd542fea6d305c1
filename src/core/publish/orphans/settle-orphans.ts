import type { DestinationConfig } from '../../config/config.ts';
import type { CoreContext } from '../../context.ts';
import { errorRecord, hasCode, WaybillError } from '../../errors.ts';
import { finding } from '../../finding.ts';
import { withReleasers } from '../../lifecycle.ts';
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
  /** The source as it was when the bundles were selected. */
  listing: SourceListing;
  /** Lists the source once more. */
  listAgain: () => Promise<SourceListing>;
  /** Something of the pipeline failed: then nothing is removed. */
  hasFailed: boolean;
}

/**
 * Reports or removes, as `orphans` of the destination says, what was published there and is not in the source
 * any more. What is removed is unpublished one bundle path after another, each an attempt of its own. It has
 * to be missing from the source in two listings, before the publications and after them, and its catalog must
 * not have changed since it was found. Never throws: a failure is in the result that is returned.
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
    context.log.error({ err: error, destination: destination.id }, 'orphans could not be settled');
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
  const again = request.dryRun ? listing : await task.listAgain();
  if (again !== listing) refuseRemoval(task, found, again, request);
  const held = heldPaths(again);
  for (const orphan of found.orphans) {
    if (context.signal?.aborted === true) break;
    if (isHeld(held, orphan.destinationPath)) continue;
    const settled = await remove(context, root, task, orphan, request);
    if (settled !== null) orphans.push(settled);
  }
}

const notAfterFailure = 'orphans stay where they are until everything else of the pipeline succeeds';

/**
 * A source without a bundle is more often a mount that is missing than a wish to take everything down.
 * Throws `too_many_removals`.
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
    `the source holds no bundle at all, so that "${orphans[0]?.destinationPath ?? ''}" ${what}; none was removed`,
    { hint: 'check the location of the source; if all of it is meant to go, run once with --allow-removals' },
  );
}

/** Null if somebody else has removed it by now. */
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
      ...{ owner: from.owner, destinationPath, layout, dryRun },
      concurrency: destination.fileConcurrency,
      // Counted over the destination already.
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
    ...{ outputs, bytes, action: 'keep', error: null },
  };
}
