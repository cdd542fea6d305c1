import { randomUUID } from 'node:crypto';
import type { OutputRecord } from '../catalog/catalog.ts';
import type { PrunePolicy } from '../config/config.ts';
import type { Clock } from '../lib/clock.ts';
import { maxClockSkewMs } from '../lib/clock-skew.ts';
import { WaybillError } from '../lib/errors.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import { formatDuration } from '../lib/settings/units.ts';
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
  /** True if the output should be removed. */
  prune: boolean;
  reason: string;
}

/**
 * Selects outputs to prune by `updated_at`, across all of the destination's managed bundle paths. Keeps the
 * owner's newest `keepLatest` outputs. Prunes the others if they are older than `olderThanMs` milliseconds,
 * or regardless of their age if that is null. Equal times are ordered by path. Returns a decision for each of
 * the owner's outputs, newest first.
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

/**
 * Throws `clock_ahead` if the local clock is ahead of the storage's clock. If the storage did not report a
 * time when it was opened and `mayWrite` is true, writes a small file to get its time. Accepts local storage,
 * and storage whose time is unknown. Throws the storage's error.
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
