import { type OutputRecord, publishedBy } from '../../catalog/catalog.ts';
import { readState, requireCatalog, type StoredState } from '../../catalog/catalog-store.ts';
import { decideUnderLease, sweepAbandoned } from '../../catalog/lease/with-lease.ts';
import { findClaimAbove, surveyDestination } from '../../catalog/managed-paths.ts';
import type { CoreContext } from '../../context.ts';
import { WaybillError } from '../../lib/errors.ts';
import { describeBundlePath } from '../../lib/paths.ts';
import { nearest, shellQuoted } from '../../lib/text.ts';
import { bundlePathsAmong } from '../../releases/describe.ts';
import { releasePathOf } from '../../releases/release.ts';
import { readReleases } from '../../releases/releases-store.ts';
import { parseBundlePath } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { subdirectory } from '../../storage/wrappers/subdirectory.ts';
import { applyUnderLease, refuseObstructed } from '../apply/apply.ts';
import { plannedRemovals, refuseRemovals } from '../decision/refusals.ts';
import { unpublishOccurrence } from '../results/occurrences.ts';
import {
  notOrphanError,
  type Unpublication,
  unpublication,
  type UnpublishReport,
  type UnpublishRequest,
} from './unpublication.ts';
import { unpublishReleases } from './unpublish-releases.ts';

/**
 * Removes everything that one owner has published at a bundle path, in either layout. The catalog goes with
 * the last output, so the next publication works as if it were the first. Files that are not recorded are
 * never removed. `root` is rooted at the destination.
 *
 * This follows the publication protocol: the intent lists all removals before the first one, and a failure is
 * rolled back. If the process is killed, the owner's next publication or removal finishes the work.
 *
 * Throws `usage` for a single release, or if both layouts exist and `layout` is not set; `not_published` if
 * there is no catalog; `not_owned` if the owner has nothing there; `state_conflict` if the catalog is
 * invalid; `destination_busy` if the orphan is no longer one; `too_many_removals`; and the same errors as
 * `apply`.
 */
export async function unpublish(
  context: CoreContext,
  root: Storage,
  request: UnpublishRequest,
): Promise<UnpublishReport> {
  const { destinationPath, layout, dryRun } = request;
  refuseRelease(destinationPath);
  const storage = subdirectory(root, parseBundlePath(destinationPath));
  const stored = layout === 'releases' ? absent : await readState(storage);
  if (layout === undefined && stored.state.kind !== 'absent') await refuseBoth(storage, destinationPath);
  const { orphan } = request;
  const why = orphan === undefined ? {} : { reason: 'orphan' as const, runId: orphan.runId };
  if (stored.state.kind === 'absent' && layout !== 'in_place') {
    const report = await unpublishReleases(context, storage, request);
    if (report !== null && !dryRun) context.notify?.(unpublishOccurrence(request.owner, report, why));
    if (report !== null) return report;
  }
  const decided = await catchRefusal(async () => {
    if (stored.state.kind === 'absent') throw await notPublished(root, request);
    return decideOn(stored, request);
  });
  if (decided instanceof WaybillError) {
    // The path may look like this because an earlier removal was killed right after its commit. If so, its
    // lock is still there.
    if (!dryRun) await sweepAbandoned(context, storage, stored.state);
    throw decided;
  }
  request.orphan?.onDecided?.({ work: decided, stored });
  if (dryRun) {
    await refuseObstructed(storage, decided, { stateBytes: stored.raw?.size ?? 0, isUnderLease: false });
    return reportOf(decided, stored);
  }
  const report = await decideUnderLease(context, storage, async (lease) => {
    if (lease.found.state.kind === 'absent') throw await notPublished(root, request);
    const work = decideOn(lease.found, request);
    request.orphan?.onDecided?.({ work, stored: lease.found });
    await applyUnderLease(context, work, { storage, lease, concurrency: request.concurrency });
    return reportOf(work, lease.found);
  });
  context.notify?.(unpublishOccurrence(request.owner, report, why));
  return report;
}

const absent: StoredState = { state: { kind: 'absent' }, raw: null };

/**
 * Refuses to unpublish a single release. Releases are removed by retention, or together with their bundle
 * path.
 */
function refuseRelease(destinationPath: string): void {
  const release = releasePathOf(destinationPath);
  if (release === null) return;
  throw new WaybillError(
    'usage',
    `"${destinationPath}" is a release of "${release.bundlePath}" and cannot be unpublished alone; nothing was removed`,
    {
      hint: `run waybill unpublish ${shellQuoted(release.bundlePath)} to remove all of it, or waybill releases rollback to return to an earlier release`,
    },
  );
}

/** Refuses if both layouts exist. This happens after a migration, until the old one is unpublished. */
async function refuseBoth(storage: Storage, destinationPath: string): Promise<void> {
  if ((await readReleases(storage)).current === null) return;
  throw new WaybillError(
    'usage',
    `${describeBundlePath(destinationPath)} is published in place and as releases; nothing was removed`,
    { hint: 'choose the layout to remove with `--layout in_place` or `--layout releases`' },
  );
}

async function catchRefusal<T>(decide: () => Promise<T>): Promise<T | WaybillError> {
  return decide().catch((error: unknown) => {
    if (error instanceof WaybillError) return error;
    throw error;
  });
}

function decideOn(
  { state }: StoredState,
  { owner, destinationPath, maxRemoved, orphan }: UnpublishRequest,
): Unpublication {
  const catalog = requireCatalog(state);
  if (orphan?.isStill(catalog) === false) throw notOrphanError(destinationPath);
  const work = unpublication(catalog, owner, destinationPath);
  refuseRemovals(maxRemoved, plannedRemovals(work, state));
  return work;
}

function reportOf(work: Unpublication, { state }: StoredState): UnpublishReport {
  const { destinationPath, removes, records, staying } = work;
  const bytes = records.reduce((sum: number, { size }: OutputRecord) => sum + size, 0);
  return {
    destinationPath,
    bundle: publishedBy(state, work.owner),
    outputs: [...removes],
    bytes,
    staying,
    releases: [],
  };
}

/**
 * Returns an error that suggests a bundle path with a similar name, or names the path whose catalog has files
 * there.
 */
async function notPublished(
  root: Storage,
  { destinationPath, layout }: UnpublishRequest,
): Promise<WaybillError> {
  if (layout !== undefined)
    return new WaybillError(
      'not_published',
      `${describeBundlePath(destinationPath)} is not published with \`layout: ${layout}\`; nothing was removed`,
      { hint: 'omit --layout to remove the bundle in whichever layout it uses' },
    );
  const known = bundlePathsAmong((await surveyDestination(root)).paths);
  const claim = await findClaimAbove(root, destinationPath);
  return new WaybillError(
    'not_published',
    `"${destinationPath}" is not a managed bundle path: there is no catalog; nothing was removed`,
    {
      hint:
        claim === null
          ? suggestion(destinationPath, known)
          : `its files belong to the bundle path "${claim.catalogPath}"`,
    },
  );
}

const maxListed = 10;

function suggestion(destinationPath: string, known: readonly string[]): string {
  if (known.length === 0) return 'nothing is published to this destination; check its location';
  const below = known.filter((path) => path.startsWith(`${destinationPath}/`));
  if (below.length > 0) return `unpublish one bundle path at a time: ${listed(below)}`;
  const closest = nearest(destinationPath, known);
  return closest === undefined ? `published here: ${listed(known)}` : `did you mean "${closest}"?`;
}

function listed(paths: readonly string[]): string {
  const more = paths.length - maxListed;
  return paths.slice(0, maxListed).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
