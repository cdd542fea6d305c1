import { isSameBytes, readState, type StoredState } from '../catalog/catalog-store.ts';
import { findClaimAbove } from '../catalog/managed-paths.ts';
import type { DestinationConfig } from '../config/config.ts';
import { WaybillError } from '../lib/errors.ts';
import { backendOf, type DestinationLocation } from '../storage/backends.ts';
import type { Storage } from '../storage/storage.ts';
import { applyClaim, dependsOnClaims } from './decision/collisions.ts';
import { decide } from './decision/decide.ts';
import { observe } from './decision/observe.ts';
import { enforceLimits } from './decision/refusals.ts';
import { changesDestination, type DecisionBasis, type Observation, type Plan } from './plan.ts';
import type { PublishRequest } from './publish-request.ts';

/*
 * Looks at a bundle path and decides what to do there: first without the lease, then again while holding it.
 */

/** Makes a decision for a state that was just read. */
export type DecideOn = (stored: StoredState) => Promise<Plan>;

/**
 * Returns the function that makes decisions for one publication. `storage` is rooted at the bundle path and
 * `root` at the destination. Besides the errors of `decide` and `applyClaim`, the function can throw
 * `bucket_root_protected`, `catalog_too_large`, `stale_bundle`, `too_many_removals`, and any error from
 * `onDecided`.
 */
export function newDecider(
  { storage, root }: { storage: Storage; root: Storage },
  destination: Pick<DestinationConfig, 'location' | 'stale' | 'limits'>,
  input: DecisionBasis,
  { allowRemovals = false, onDecided }: Pick<PublishRequest, 'allowRemovals' | 'onDecided'> = {},
): DecideOn {
  let last: { stored: StoredState; observed: Observation; decided: Plan } | undefined;
  return async (stored) => {
    // If the state is the same as before, no publisher has touched the recorded files. Checking them again
    // would be the slowest part of a publication that keeps most of its outputs.
    const known = last !== undefined && isSameState(last.stored, stored) ? last.observed : undefined;
    const observed = await observe(storage, input, stored, known?.damaged);
    const isAsBefore = known !== undefined && isEquivalent(known, observed);
    const decided = last !== undefined && isAsBefore ? last.decided : decide({ ...input, observed });
    last = { stored, observed, decided };
    const plan = dependsOnClaims(decided)
      ? applyClaim(decided, await findClaimAbove(root, input.destinationPath))
      : decided;
    refuseBucketRoot(plan, destination.location);
    enforceLimits(plan, stored, destination, { force: input.force, allowRemovals });
    onDecided?.({ plan, planned: input.planned, stored });
    return plan;
  };
}

/** How many times to look again if other publishers keep changing the state. */
const maxLooks = 10;

/**
 * Decides without holding the lease. The state may be out of date, because it was read before the outputs
 * were hashed. If the decision depends on files that are not in the state, it is only final if the state was
 * the same before and after looking at them. Publishers write their intent first, so a change would show.
 */
export async function decideOnLatest(
  storage: Storage,
  stored: StoredState,
  decideOn: DecideOn,
): Promise<Plan> {
  for (let look = 1; ; look += 1) {
    const plan = await decideOn(stored);
    if (!needsSurvey(plan) || look === maxLooks) return plan;
    const latest = await readState(storage);
    if (isSameState(latest, stored)) return plan;
    stored = latest;
  }
}

/**
 * Reports whether the plan depends on files that are not in the state, because it would delete them or
 * because they are the reason for refusing to publish.
 */
export function needsSurvey({ action, clears }: Plan): boolean {
  return clears || !(changesDestination(action) || action === 'skip_same');
}

/**
 * Reports whether two observations of the same state came across nothing but recorded files. Both then lead
 * to the same plan.
 */
function isEquivalent(a: Observation, b: Observation): boolean {
  const isPlain = ({ contentPresent, unrecorded, nested, contents, obstacles }: Observation): boolean =>
    contentPresent &&
    obstacles.size === 0 &&
    [unrecorded, nested, contents].every(({ length }) => length === 0);
  return isPlain(a) && isPlain(b);
}

export function isSameState(a: StoredState, b: StoredState): boolean {
  return isSameBytes(a.raw, b.raw);
}

/**
 * Refuses a forced replacement if the destination root is a whole bucket, since that would delete unrelated
 * objects as well. Throws `bucket_root_protected` on backends that protect the bucket root.
 */
export function refuseBucketRoot(
  { clears, destinationPath }: Pick<Plan, 'clears' | 'destinationPath'>,
  location: DestinationLocation,
): void {
  if (!clears || destinationPath !== '.') return;
  const backend = backendOf(location);
  const root = backend.protectedRoot(location);
  if (root === null) return;
  throw new WaybillError(
    'bucket_root_protected',
    `${backend.describe(location)}: a forced replacement here would delete everything in ${root.holder}; nothing was deleted`,
    { hint: root.hint },
  );
}
