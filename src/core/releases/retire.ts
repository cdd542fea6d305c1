import type { LeaseTimes } from '../lease/lease.ts';
import { sweepAbandoned } from '../lease/with-lease.ts';
import type { Storage } from '../storage/storage.ts';
import { announcing, forgetting } from './ledger.ts';
import type { ReleaseId } from './release.ts';
import { retired, type RetentionRule } from './retention.ts';
import { changeReleases, readReleases, type ReleasesContext } from './store.ts';
import { storedReleases } from './stored-releases.ts';

export interface RetireOptions {
  rule: RetentionRule;
  /**
   * Removes all of a release, whether or not an earlier call has begun with it. Leaves it alone if `isStill`
   * says no: it has to be asked under the lease of the release, after its catalog was read.
   */
  remove: (id: ReleaseId, isStill: () => Promise<boolean>) => Promise<void>;
  dryRun: boolean;
  /** Only tests pass their own. */
  leaseTimes?: LeaseTimes;
}

/**
 * Removes the releases that the rule retires, and returns their ids. Each is announced in the ledger before
 * anything of it goes, so that it cannot become current from then on, and is forgotten once it is gone: after
 * a kill, the next call finishes it. Throws as `changeReleases` does, or what `remove` throws.
 */
export async function retireReleases(
  context: ReleasesContext,
  storage: Storage,
  { rule, remove, dryRun, leaseTimes }: RetireOptions,
): Promise<ReleaseId[]> {
  const { clock } = context;
  const stored = await storedReleases(storage);
  const found = await readReleases(storage);
  const wanted = retired(found, stored, rule, clock.now());
  if (dryRun) return [...announcing(found.ledger, wanted).removing];
  if (wanted.length === 0 && found.ledger.removing.length === 0) {
    // A call that was killed after its last change may have left its lock.
    await sweepAbandoned(context, storage, { kind: 'absent' });
    return [];
  }
  const goes = await changeReleases(
    context,
    storage,
    async (releases) => {
      // Another process may have switched to one of them since; one that is new since is not looked at.
      const ledger = announcing(releases.ledger, retired(releases, stored, rule, clock.now()));
      const isNew = ledger.removing.length > releases.ledger.removing.length;
      return { result: ledger.removing, next: isNew ? { ledger, current: releases.current } : null };
    },
    leaseTimes,
  );
  // Another process may have removed it meanwhile, and a third have published it anew.
  const isStill = async (id: ReleaseId): Promise<boolean> => {
    const { ledger, current } = await readReleases(storage);
    return current !== id && ledger.removing.includes(id);
  };
  for (const id of goes) await remove(id, async () => isStill(id));
  await changeReleases(
    context,
    storage,
    async ({ ledger, current }) => ({ result: null, next: { ledger: forgetting(ledger, goes), current } }),
    leaseTimes,
  );
  return [...goes];
}
