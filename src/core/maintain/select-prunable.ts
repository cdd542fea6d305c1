import { randomUUID } from 'node:crypto';
import type { OutputRecord } from '../catalog/catalog.ts';
import type { PrunePolicy } from '../config/config.ts';
import type { Clock } from '../lib/clock.ts';
import { maxClockSkewMs } from '../lib/clock-skew.ts';
import { WaybillError } from '../lib/errors.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import { formatDuration } from '../lib/settings/sizes-and-durations.ts';
import { bytesBody } from '../storage/body.ts';
import { type Owner, sameOwner } from '../storage/identity.ts';
import { joinKey, listedKey } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';

export interface PruneCandidate {
  /** The managed bundle path; `.` for the root. */
  destinationPath: string;
  record: OutputRecord;
}

export interface PruneDecision extends PruneCandidate {
  prune: boolean;
  reason: string;
}

/**
 * Decides which outputs to prune, based on `updated_at` and across all managed bundle paths of a destination.
 * The owner's newest `keepLatest` outputs stay. The others are pruned if they are older than `olderThanMs`
 * milliseconds or, if that is null, no matter how old they are. Outputs with the same time are sorted by
 * path. Returns a decision for each output of the owner, newest first.
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
    // A policy that has no limits must not end up deleting everything.
    return reasons.length === 0
      ? { ...candidate, prune: false, reason: 'the policy sets no bound' }
      : { ...candidate, prune: true, reason: reasons.join(' and ') };
  });
}

function placeOf({ destinationPath, record }: PruneCandidate): string {
  return `${destinationPath}/${record.path}`;
}

/**
 * Throws `clock_ahead` if our clock is ahead of the storage's. If the storage did not say what time it is
 * when it was opened, and `mayWrite` is true, writes a small file to find out. Local storage is fine, and so
 * is storage whose time we cannot find out. Throws the storage's error.
 */
export async function refuseClockAhead(
  storage: Storage,
  clock: Clock,
  { mayWrite }: { mayWrite: boolean },
): Promise<void> {
  const reported = storage.facts.clockOffsetMs;
  const offsetMs = reported ?? (mayWrite ? await offsetOfFile(storage, clock) : null);
  if (offsetMs === null || offsetMs >= -maxClockSkewMs) return;
  throw new WaybillError(
    'clock_ahead',
    `the clock of this machine is ${formatDuration(-offsetMs)} ahead of the clock of ${storage.label}, so outputs seem older than they are; nothing was deleted`,
    { hint: 'correct the clock and run again' },
  );
}

async function offsetOfFile(storage: Storage, clock: Clock): Promise<number | null> {
  const key = joinKey(listedKey(`.publisher-probe-${randomUUID()}`), 'clock');
  try {
    await storage.write(key, bytesBody('1'), { mode: 'replace' });
    const modifiedAt = (await storage.stat(key))?.modifiedAt ?? null;
    return modifiedAt === null ? null : modifiedAt.getTime() - clock.now().getTime();
  } finally {
    await storage.remove(key);
  }
}
