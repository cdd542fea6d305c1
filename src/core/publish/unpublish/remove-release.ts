import type { Catalog } from '../../catalog/catalog.ts';
import type { LeaseTimes } from '../../catalog/lease/lease.ts';
import { decidingUnderLease, sweepAbandoned } from '../../catalog/lease/with-lease.ts';
import { readState, requireCatalog, type StoredState } from '../../catalog/store.ts';
import type { CoreContext } from '../../context.ts';
import { compareCodeUnits } from '../../lib/paths.ts';
import type { Owner } from '../../storage/identity.ts';
import { type Key, keyOf } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { applyUnderLease } from '../apply/apply.ts';
import type { Work } from '../plan.ts';

export interface RemovalRequest {
  /** Whether the release must still be removed. Called under the lease, after the catalog was read. */
  isStill: () => Promise<boolean>;
  /** The number of files kept or removed concurrently. */
  concurrency: number;
  /** Set only by tests. */
  leaseTimes?: LeaseTimes | undefined;
}

/**
 * Removes a release: the outputs of all owners, the paths announced by an interrupted attempt, and then the
 * catalog. Uses the protocol of unpublishing, so that the next call finishes after a kill. Keeps unrecorded
 * files. Does nothing without a catalog. `storage` is rooted at the release.
 *
 * Throws `state_conflict` if the catalog is invalid, and like `apply`.
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
  await decidingUnderLease(
    context,
    storage,
    async (lease) => {
      const work = removalOf(lease.found);
      if (work === null || !(await isStill())) return;
      await applyUnderLease(context, storage, lease, work, { concurrency });
    },
    leaseTimes,
  );
  // No later attempt visits a removed release, so the remains of the lease are swept now.
  await sweepAbandoned(context, storage, (await readState(storage)).state);
}

/** null if the catalog is already removed. Pure. */
function removalOf({ state }: StoredState): Work | null {
  if (state.kind === 'absent') return null;
  const catalog = requireCatalog(state);
  const { outputs, pending } = catalog;
  const removes = new Set<Key>([...outputs, ...(pending?.outputs ?? [])].map(({ path }) => keyOf(path)));
  for (const key of pending?.removes ?? []) removes.add(key);
  return {
    owner: ownerOf(catalog),
    action: 'unpublish',
    bundle: null,
    writes: [],
    kept: [],
    removes: [...removes].sort(compareCodeUnits),
    clears: false,
    untouched: [],
  };
}

/** The owner to name in the intent of the removal. */
function ownerOf({ outputs, pending, bundles }: Catalog): Owner {
  return (
    pending?.owner ?? outputs[0]?.owner ?? bundles[0]?.owner ?? { pipelineId: 'none', destinationId: 'none' }
  );
}
