import type { Catalog } from '../../catalog/catalog.ts';
import { readState, requireCatalog, type StoredState } from '../../catalog/store.ts';
import type { CoreContext } from '../../context.ts';
import type { Owner } from '../../identity.ts';
import type { LeaseTimes } from '../../lease/lease.ts';
import { whileHeld } from '../../lease/while-held.ts';
import { decidingUnderLease, sweepAbandoned } from '../../lease/with-lease.ts';
import { compareCodeUnits } from '../../paths.ts';
import { keyOf, type Key } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { apply } from '../apply/apply.ts';
import { refuseObstructed } from '../apply/preflight.ts';
import type { Work } from '../plan.ts';

export interface RemovalRequest {
  /** Asked under the lease, after the catalog was read: whether the release is still to go. */
  isStill: () => Promise<boolean>;
  /** Files kept or removed at once. */
  concurrency: number;
  /** Only tests pass their own. */
  leaseTimes?: LeaseTimes | undefined;
}

/**
 * Removes a release: everything that its catalog records, whosever it is, and what an interrupted attempt
 * announced, and then the catalog. It goes by the protocol of an unpublishing, so that the next call finishes
 * what a kill interrupts. What is not recorded stays. Does nothing if there is no catalog. `storage` is
 * rooted at the release.
 *
 * Throws `state_conflict` if the catalog is not valid, and what `apply` throws.
 */
export async function removeRelease(
  context: CoreContext,
  storage: Storage,
  { isStill, concurrency, leaseTimes }: RemovalRequest,
): Promise<void> {
  const stored = await readState(storage);
  // A removal that was killed after its commit may have left its lock.
  if (stored.state.kind === 'absent') return sweepAbandoned(context, storage, stored.state);
  requireCatalog(stored.state);
  const { clock, log, signal } = context;
  await decidingUnderLease(
    context,
    storage,
    async (lease) => {
      const work = removalOf(lease.found);
      if (work === null || !(await isStill())) return;
      await refuseObstructed(storage, work, { stateBytes: lease.found.raw?.size ?? 0, isUnderLease: true });
      await apply(work, {
        ...{ storage: whileHeld(storage, lease), lease, clock, log, concurrency },
        ...(signal === undefined ? {} : { signal }),
      });
    },
    leaseTimes,
  );
  // Nobody comes back to a release that is gone: what its lease could not remove has to go now.
  await sweepAbandoned(context, storage, (await readState(storage)).state);
}

/** Null if there is nothing any more. Pure. */
function removalOf({ state }: StoredState): Work | null {
  if (state.kind === 'absent') return null;
  const catalog = requireCatalog(state);
  const { outputs, pending } = catalog;
  const goes = new Set<Key>([...outputs, ...(pending?.outputs ?? [])].map(({ path }) => keyOf(path)));
  for (const key of pending?.removes ?? []) goes.add(key);
  return {
    ...{ owner: ownerOf(catalog), action: 'unpublish', bundle: null },
    ...{ writes: [], kept: [], removes: [...goes].sort(compareCodeUnits), clears: false, untouched: [] },
  };
}

/** Whoever the intent of the removal names. */
function ownerOf({ outputs, pending, bundles }: Catalog): Owner {
  return (
    pending?.owner ?? outputs[0]?.owner ?? bundles[0]?.owner ?? { pipelineId: 'none', destinationId: 'none' }
  );
}
