import { findClaimAbove } from '../catalog/claim-above.ts';
import { isSameBytes, readState, type StoredState } from '../catalog/store.ts';
import type { DestinationConfig } from '../config/config.ts';
import type { Storage } from '../storage/storage.ts';
import { refuseBucketRoot } from './refusals/bucket-root.ts';
import { decide } from './decision/decide.ts';
import { dependsOnClaims, respectClaim } from './decision/respect-claim.ts';
import { observe } from './observation/observe.ts';
import { changesDestination, type DecisionInput, type Observation, type Plan } from './plan.ts';
import type { PublishRequest } from './publish-request.ts';
import { refuseUnwanted } from './refusals/unwanted-plan.ts';

/** Decides on a state that was just read: first without the lease, then under it. */
export type DecideOn = (stored: StoredState) => Promise<Plan>;

/**
 * Decides about one publication; `storage` is rooted at its bundle path, `root` at the destination. Throws
 * the refusals that are no decisions of the table: those of `decide` and of `respectClaim`,
 * `bucket_root_protected`, `catalog_too_large`, `stale_bundle` and `too_many_removals`, and what `onDecided`
 * throws.
 */
export function decider(
  { storage, root }: { storage: Storage; root: Storage },
  destination: Pick<DestinationConfig, 'location' | 'stale' | 'limits'>,
  input: Omit<DecisionInput, 'observed'>,
  { allowRemovals = false, onDecided }: Pick<PublishRequest, 'allowRemovals' | 'onDecided'> = {},
): DecideOn {
  let last: { stored: StoredState; observed: Observation; decided: Plan } | undefined;
  return async (stored) => {
    // If the state is the same, no publisher has been at work, and what it records is as it was seen. To look
    // at all of that again would be most of the cost of a publication that keeps most of its outputs.
    const known = last !== undefined && isSameState(last.stored, stored) ? last.observed : undefined;
    const observed = await observe(storage, input, stored, known?.damaged);
    const isAsBefore = known !== undefined && isSameSight(known, observed);
    const decided = last !== undefined && isAsBefore ? last.decided : decide({ ...input, observed });
    last = { stored, observed, decided };
    const plan = dependsOnClaims(decided)
      ? respectClaim(decided, await findClaimAbove(root, input.destinationPath))
      : decided;
    refuseBucketRoot(plan, destination.location);
    refuseUnwanted(plan, stored, destination, { force: input.force, allowRemovals });
    onDecided?.({ plan, planned: input.planned, stored });
    return plan;
  };
}

/** Another publisher may be at work during a look; then this looks again, so many times. */
const maxLooks = 10;

/**
 * Decides without the lease. The state may have been read long ago, before the outputs were hashed, so a
 * decision that depends on files beside the state is final only if the state is still the same afterwards:
 * publishers write their intent before they write anything else.
 */
export async function decideOnLatest(
  storage: Storage,
  stored: StoredState,
  decideOn: DecideOn,
): Promise<Plan> {
  for (let look = 1; ; look += 1) {
    const plan = await decideOn(stored);
    if (!dependsOnStrays(plan) || look === maxLooks) return plan;
    const latest = await readState(storage);
    if (isSameState(latest, stored)) return plan;
    stored = latest;
  }
}

/** Whether files that no record names have led to this plan: it refuses, or it deletes them. Pure. */
export function dependsOnStrays({ action, clears }: Plan): boolean {
  return clears || !(changesDestination(action) || action === 'skip_same');
}

/**
 * Whether both, of the same state, show nothing but what that records; then both lead to the same decision:
 * what it vouches for is looked at once.
 */
function isSameSight(a: Observation, b: Observation): boolean {
  const isPlain = ({ contentPresent, unrecorded, nested, contents, obstacles }: Observation): boolean =>
    contentPresent &&
    obstacles.size === 0 &&
    [unrecorded, nested, contents].every(({ length }) => length === 0);
  return isPlain(a) && isPlain(b);
}

export function isSameState(a: StoredState, b: StoredState): boolean {
  return isSameBytes(a.raw, b.raw);
}
