import type { Catalog, OutputRecord, PublishedBundle } from '../../catalog/catalog.ts';
import { findClaimAbove } from '../../catalog/claim-above.ts';
import { reportedPath, surveyDestination } from '../../catalog/managed-paths.ts';
import { publishedBy } from '../../catalog/published-bundles.ts';
import { readState, requireCatalog, type StoredState } from '../../catalog/store.ts';
import { nearest } from '../../config/nearest.ts';
import type { CoreContext } from '../../context.ts';
import { WaybillError } from '../../errors.ts';
import type { Owner } from '../../identity.ts';
import type { LeaseTimes } from '../../lease/lease.ts';
import { whileHeld } from '../../lease/while-held.ts';
import { decidingUnderLease, sweepAbandoned } from '../../lease/with-lease.ts';
import type { Amount } from '../../settings/units.ts';
import { parseBundlePath } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { within } from '../../storage/wrappers/within.ts';
import { apply } from '../apply/apply.ts';
import { refuseObstructed } from '../apply/preflight.ts';
import { plannedRemovals, refuseRemovals } from '../refusals/removal-limit.ts';
import { unpublishOccurrence } from '../results/occurrences.ts';
import { unpublication, type DecidedOrphan, type Unpublication } from './unpublication.ts';

export interface UnpublishRequest {
  owner: Owner;
  /** The bundle path, relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** `limits.max_removed` of the destination; null allows any number. */
  maxRemoved: Amount | null;
  /** Report what would go; nothing is removed and no lease is taken. */
  dryRun: boolean;
  /** Files kept or removed at once. */
  concurrency: number;
  /** Set if a run removes what its source no longer holds. */
  orphan?: {
    runId: string | null;
    /** Whether the catalog still says what made it an orphan; asked under the lease, too. */
    isStill: (catalog: Catalog) => boolean;
    /** Called with each decision before anything follows from it: without the lease, and under it. */
    onDecided?: ((decided: DecidedOrphan) => void) | undefined;
  };
  /** Only tests pass their own. */
  leaseTimes?: LeaseTimes;
}

export interface UnpublishReport {
  destinationPath: string;
  /** The bundle that was published there; null if the catalog does not say. */
  bundle: PublishedBundle | null;
  /** Sorted. Also what an interrupted attempt of this owner wrote, or was still to remove. */
  outputs: string[];
  /** Bytes of the recorded ones. */
  bytes: number;
  /** Whose outputs stay, and with them the catalog; none if the catalog goes. */
  staying: Owner[];
}

/**
 * Removes everything that one owner has published at a bundle path, and with the last output the catalog: a
 * publication there is then the first one again. It goes by the protocol of a publication: the intent names
 * what goes before anything does, a failure is undone, and after a kill the next unpublishing or publication
 * of the owner finishes it. Never removes what is not recorded. `root` is rooted at the destination.
 *
 * Throws `not_published` if there is no catalog, `not_owned` if nothing there is the owner's,
 * `state_conflict` if the catalog is not valid, `destination_busy` if an orphan is none any more,
 * `too_many_removals`, and what `apply` throws.
 */
export async function unpublish(
  context: CoreContext,
  root: Storage,
  request: UnpublishRequest,
): Promise<UnpublishReport> {
  const { destinationPath, dryRun } = request;
  const storage = within(root, parseBundlePath(destinationPath));
  const stored = await readState(storage);
  const decided = await orRefusal(async () => {
    if (stored.state.kind === 'absent') throw await notPublished(root, destinationPath);
    return decideOn(stored, request);
  });
  if (decided instanceof WaybillError) {
    // An unpublishing that was killed after its commit left this refusal, and perhaps its lock.
    if (!dryRun) await sweepAbandoned(context, storage, stored.state);
    throw decided;
  }
  request.orphan?.onDecided?.({ work: decided, stored });
  if (dryRun) {
    await refuseObstructed(storage, decided, { stateBytes: sizeOf(stored), isUnderLease: false });
    return reportOf(decided, stored);
  }
  const { clock, log, signal, notify } = context;
  const report = await decidingUnderLease(
    context,
    storage,
    async (lease) => {
      if (lease.found.state.kind === 'absent') throw await notPublished(root, destinationPath);
      const work = decideOn(lease.found, request);
      request.orphan?.onDecided?.({ work, stored: lease.found });
      await refuseObstructed(storage, work, { stateBytes: sizeOf(lease.found), isUnderLease: true });
      await apply(work, {
        ...{ storage: whileHeld(storage, lease), lease, clock, log, concurrency: request.concurrency },
        ...(signal === undefined ? {} : { signal }),
      });
      return reportOf(work, lease.found);
    },
    request.leaseTimes,
  );
  const { orphan } = request;
  const why = orphan === undefined ? {} : { reason: 'orphan' as const, runId: orphan.runId };
  notify?.(unpublishOccurrence(request.owner, report, why));
  return report;
}

async function orRefusal<T>(decide: () => Promise<T>): Promise<T | WaybillError> {
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
  if (orphan?.isStill(catalog) === false) throw noOrphanNow(destinationPath);
  const work = unpublication(catalog, owner, destinationPath);
  refuseRemovals(maxRemoved, plannedRemovals(work, state));
  return work;
}

function noOrphanNow(destinationPath: string): WaybillError {
  return new WaybillError(
    'destination_busy',
    `another publisher changed "${destinationPath}" since it was found to be an orphan; it was not removed`,
    { hint: 'run again to look at it as it is now' },
  );
}

function reportOf(work: Unpublication, { state }: StoredState): UnpublishReport {
  const { destinationPath, removes, records, staying } = work;
  const bytes = records.reduce((sum: number, { size }: OutputRecord) => sum + size, 0);
  return { destinationPath, bundle: publishedBy(state, work.owner), outputs: [...removes], bytes, staying };
}

function sizeOf({ raw }: StoredState): number {
  return raw?.size ?? 0;
}

/** Names what was probably meant: a bundle path like it, or the one whose catalog has files there. */
async function notPublished(root: Storage, destinationPath: string): Promise<WaybillError> {
  const known = (await surveyDestination(root)).paths.map(reportedPath);
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

/** So many bundle paths are listed. */
const maxListed = 10;

function suggestion(destinationPath: string, known: readonly string[]): string {
  if (known.length === 0) return 'nothing is published to this destination; check its location';
  const below = known.filter((path) => path.startsWith(`${destinationPath}/`));
  if (below.length > 0) return `one bundle path at a time: ${listed(below)}`;
  const meant = nearest(destinationPath, known);
  return meant === undefined ? `published here: ${listed(known)}` : `did you mean "${meant}"?`;
}

function listed(paths: readonly string[]): string {
  const more = paths.length - maxListed;
  return paths.slice(0, maxListed).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
