import { compareCodeUnits } from '../lib/paths.ts';
import type { OutputRecord } from '../catalog/catalog.ts';
import { sameOwner, type Owner } from '../storage/identity.ts';
import type { PrunePolicy } from '../config/config.ts';

export interface PruneCandidate {
  /** The managed bundle path; `.` for the root. */
  destinationPath: string;
  record: OutputRecord;
}

export interface PruneDecision extends PruneCandidate {
  /** Whether to remove the output. */
  prune: boolean;
  reason: string;
}

/**
 * Selects outputs to prune by their `updated_at`, across all managed bundle paths of the destination. The
 * owner's newest `keepLatest` outputs are kept. All others are pruned if they are older than `olderThanMs`
 * milliseconds, or regardless of age if that is null. Equal times are ordered by path. Returns a decision for
 * each output of the owner, newest first. Pure.
 */
export function selectPrunable(
  candidates: readonly PruneCandidate[],
  owner: Owner,
  policy: PrunePolicy,
  now: Date,
): PruneDecision[] {
  const ours = candidates
    .filter(({ record }) => sameOwner(record.owner, owner))
    .sort(
      (a, b) =>
        Date.parse(b.record.updatedAt) - Date.parse(a.record.updatedAt) ||
        compareCodeUnits(placeOf(a), placeOf(b)),
    );
  return ours.map((candidate, index) => {
    const ageMs = now.getTime() - Date.parse(candidate.record.updatedAt);
    if (policy.keepLatest !== null && index < policy.keepLatest)
      return { ...candidate, prune: false, reason: `among the newest ${policy.keepLatest}` };
    if (policy.olderThanMs !== null && ageMs <= policy.olderThanMs)
      return { ...candidate, prune: false, reason: 'not old enough' };
    const reasons = [
      ...(policy.keepLatest === null ? [] : [`not among the newest ${policy.keepLatest}`]),
      ...(policy.olderThanMs === null ? [] : ['older than the policy allows']),
    ];
    // A policy without limits must not delete everything.
    return reasons.length === 0
      ? { ...candidate, prune: false, reason: 'the policy sets no bound' }
      : { ...candidate, prune: true, reason: reasons.join(' and ') };
  });
}

function placeOf({ destinationPath, record }: PruneCandidate): string {
  return `${destinationPath}/${record.path}`;
}
