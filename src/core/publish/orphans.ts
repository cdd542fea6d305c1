import type { Discovery } from '../bundle/discover.ts';
import { type Catalog, type PublishedBundle, publishedBy } from '../catalog/catalog.ts';
import { surveyDestination } from '../catalog/managed-paths.ts';
import type { DestinationConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { errorRecord, finding, hasCode, WaybillError } from '../lib/errors.ts';
import { withReleasers } from '../lib/lifecycle.ts';
import { bundlePathsAmong, publishedState } from '../releases/describe.ts';
import type { Layout } from '../releases/release.ts';
import { type Owner, sameOwner, type SourceIdentity } from '../storage/identity.ts';
import { parseBundlePath } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { subdirectory } from '../storage/wrappers/subdirectory.ts';
import { refuseRemovals } from './decision/refusals.ts';
import type { PublishRequest } from './publish-request.ts';
import { withDestinationFailure } from './results/action-result.ts';
import type { DestinationResult, OrphanResult } from './results/result.ts';
import { unpublishListed } from './root-index/listed-changes.ts';
import { unpublication } from './unpublish/unpublication.ts';

/*
 * Finds published bundles that are gone from the source.
 */

/** The entries of a complete source listing that are bundles, or might contain one. */
export type SourceListing = Pick<Discovery, 'warnings'> & {
  candidates: readonly { path: string }[];
  invalid: readonly { path: string }[];
};

/** Identifies bundles by the owner and source they were published from. */
export interface PublishedFrom {
  owner: Owner;
  source: Pick<SourceIdentity, 'backend' | 'id'>;
}

/**
 * Returns the paths that may still be in the source: valid and invalid bundles, and everything that discovery
 * skipped, such as links and dot directories. Since discovery does not look inside skipped paths, there could
 * be bundles in them.
 */
export function protectedPaths({ candidates, invalid, warnings }: SourceListing): Set<string> {
  return new Set([
    ...[...candidates, ...invalid].map(({ path }) => path),
    ...warnings.flatMap(({ file }) => file ?? []),
  ]);
}

/** Reports whether `held` contains the path or one of its parent directories. */
export function isProtected(protectedSet: ReadonlySet<string>, path: string): boolean {
  if (protectedSet.has('.')) return true;
  for (let at = path; at !== ''; at = at.slice(0, Math.max(at.lastIndexOf('/'), 0)))
    if (protectedSet.has(at)) return true;
  return false;
}

/**
 * Reports whether the owner has outputs at the bundle path, all of them from the bundle with the same path in
 * this source. Outputs that the owner's interrupted attempt announced count as well.
 */
export function isFromSource(
  { outputs, pending }: Catalog,
  { owner, source }: PublishedFrom,
  destinationPath: string,
): boolean {
  const own = [...outputs, ...(pending?.outputs ?? [])].filter((record) => sameOwner(record.owner, owner));
  return (
    own.length > 0 &&
    own.every(
      (record) =>
        record.source.backend === source.backend &&
        record.source.id === source.id &&
        record.source.path === destinationPath,
    )
  );
}

interface Orphan {
  /** Relative to the destination root. */
  destinationPath: string;
  layout: Layout;
  /** The bundle that was published there; null if the catalog does not say. */
  bundle: PublishedBundle | null;
  /** The outputs that unpublishing would remove, sorted. */
  outputs: string[];
  /** The total size of the recorded outputs, in bytes. */
  bytes: number;
  generation: number;
  updatedAt: string;
}

interface FoundOrphans {
  /** Sorted by path. */
  orphans: Orphan[];
  /**
   * How many of the owner's recorded outputs are in orphans (`removed`) and in the whole destination
   * (`total`).
   */
  counts: { removed: number; total: number };
}

/**
 * Finds the bundle paths that match `from` and are gone from the source. Lists the destination once,
 * recursively. With `counted`, also reads the catalogs of bundles that still exist, to count their outputs.
 * Ignores invalid catalogs and other owners' catalogs. Throws the storage's error.
 */
export async function findOrphans(
  root: Storage,
  from: PublishedFrom,
  held: ReadonlySet<string>,
  { counted }: { counted: boolean },
): Promise<FoundOrphans> {
  const found: FoundOrphans = { orphans: [], counts: { removed: 0, total: 0 } };
  for (const destinationPath of bundlePathsAmong((await surveyDestination(root)).paths)) {
    const mayGo = !isProtected(held, destinationPath);
    if (!mayGo && !counted) continue;
    const storage = subdirectory(root, parseBundlePath(destinationPath));
    const { state, release } = await publishedState(storage, 'in_place');
    if (state.kind !== 'valid') continue;
    const own = state.catalog.outputs.filter(({ owner }) => sameOwner(owner, from.owner));
    found.counts.total += own.length;
    if (!mayGo || !isFromSource(state.catalog, from, destinationPath)) continue;
    found.counts.removed += own.length;
    found.orphans.push({
      destinationPath,
      layout: release === null ? 'in_place' : 'releases',
      bundle: publishedBy(state, from.owner),
      outputs: [...unpublication(state.catalog, from.owner, destinationPath).removes],
      bytes: own.reduce((sum, { size }) => sum + size, 0),
      generation: state.catalog.generation,
      updatedAt: state.catalog.updatedAt,
    });
  }
  return found;
}

export interface OrphanTask {
  destination: DestinationConfig;
  from: PublishedFrom;
  /** The source listing that the bundles were selected from. */
  listing: SourceListing;
  listAgain: () => Promise<SourceListing>;
  /** Whether any part of the pipeline failed, in which case nothing is removed. */
  hasFailed: boolean;
}

/**
 * Reports or removes orphans, which are bundles that are gone from the source. The destination's `orphans`
 * setting decides which. To be safe, a bundle is only removed if it is missing from two listings, one before
 * and one after publishing, and if its catalog has not changed since the orphan was found. Bundle paths are
 * unpublished one by one, each in its own attempt. Never throws; failures are part of the result.
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
  const found = await findOrphans(root, from, protectedPaths(listing), {
    counted: destination.orphans === 'remove' && destination.limits.maxRemoved !== null,
  });
  if (found.orphans.length === 0) return;
  if (destination.orphans === 'report' || hasFailed) {
    for (const orphan of found.orphans) orphans.push(reported(orphan));
    if (destination.orphans === 'remove')
      warnings.push(finding('warning', 'orphans_not_removed', notAfterFailure));
    return;
  }
  refuseRemoval(task, found, listing, request);
  const latest = request.dryRun ? listing : await task.listAgain();
  if (latest !== listing) refuseRemoval(task, found, latest, request);
  const protectedSet = protectedPaths(latest);
  for (const orphan of found.orphans) {
    if (context.signal?.aborted === true) break;
    if (isProtected(protectedSet, orphan.destinationPath)) continue;
    const settled = await remove(context, root, task, orphan, request);
    if (settled !== null) orphans.push(settled);
  }
}

const notAfterFailure = 'orphans are kept until the rest of the pipeline succeeds';

/**
 * Checks the number of removals against `limits.max_removed`. Also refuses if there is not a single bundle in
 * the source, because that usually means that a mount is missing. Throws `too_many_removals`.
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

/** Unpublishes an orphan. Returns null if another process has removed it already. */
async function remove(
  context: CoreContext,
  root: Storage,
  { destination, from }: OrphanTask,
  orphan: Orphan,
  { dryRun, runId, onOrphan }: PublishRequest,
): Promise<OrphanResult | null> {
  const { destinationPath, layout, generation, updatedAt } = orphan;
  try {
    const { outputs, bytes } = await unpublishListed(context, root, destination, {
      owner: from.owner,
      destinationPath,
      layout,
      dryRun,
      concurrency: destination.fileConcurrency,
      // The limit applies to the whole destination and has been checked.
      maxRemoved: null,
      orphan: {
        runId: runId ?? null,
        isStill: (catalog) =>
          catalog.generation === generation &&
          catalog.updatedAt === updatedAt &&
          isFromSource(catalog, from, destinationPath),
        onDecided: onOrphan,
      },
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
