import type { StoredState } from '../../catalog/store.ts';
import { publishedBy } from '../../catalog/catalog.ts';
import type { DestinationConfig } from '../../config/config.ts';
import { refuseStale } from '../decision/stale.ts';
import type { Plan } from '../plan.ts';
import { refuseLargeCatalog } from './catalog-size.ts';
import { plannedRemovals, refuseRemovals } from './removal-limit.ts';

/**
 * Enforces the limits of a destination on a plan. `state` is the state found there. Throws
 * `catalog_too_large`, `stale_bundle` and `too_many_removals`. Pure.
 */
export function refuseUnwanted(
  plan: Plan,
  { state }: Pick<StoredState, 'state'>,
  { stale, limits: { maxRemoved } }: Pick<DestinationConfig, 'stale' | 'limits'>,
  { force, allowRemovals }: { force: boolean; allowRemovals: boolean },
): void {
  refuseLargeCatalog(plan);
  if (stale === 'refuse' && !force) refuseStale(plan, publishedBy(state, plan.owner));
  // The owner's outputs are counted only if there is a limit.
  if (!allowRemovals && maxRemoved !== null && plan.removes.length > 0)
    refuseRemovals(maxRemoved, plannedRemovals(plan, state));
}
