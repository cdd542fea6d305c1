import { channelTargets, expiredChannels, lastGoodRelease, type Releases } from './ledger.ts';
import type { ReleaseId } from './release.ts';
import type { StoredRelease } from './stored-releases.ts';

/*
 * Decides which releases can be removed.
 */

export interface RetentionRule {
  /** How many complete releases to keep besides the current one. */
  keep: number;
  /** How long to keep a release after it was written or was last in use, in milliseconds. */
  lingerMs: number;
}

/**
 * Returns the releases to remove, sorted. These are complete releases, except for the newest `keep`, and
 * abandoned ones, provided that they have not been in use for `lingerMs`.
 *
 * Some releases are never removed: the current one, the default target of a rollback, any that a channel
 * points at, and any that are unreadable or still being written. A release that was only ever used by a
 * channel does not count as one of the `keep`. If the pointer does not point at a release, nothing is
 * removed, because any of the files could be in use.
 */
export function selectRetired(
  releases: Releases,
  stored: readonly StoredRelease[],
  { keep, lingerMs }: RetentionRule,
  now: Date,
): ReleaseId[] {
  if (releases.foreignTarget !== null) return [];
  const { leftAt, channelLeftAt, lastUse } = uses(releases);
  const inUse = [releases.current, ...channelTargets(releases)];
  const protectedIds = new Set<ReleaseId | null>([...inUse, lastGoodRelease(releases)]);
  const wasPreview = (id: ReleaseId): boolean => channelLeftAt.has(id) && !leftAt.has(id);
  const complete = stored
    .filter(({ id, state }) => state === 'complete' && !inUse.includes(id) && !wasPreview(id))
    .sort((a, b) => compare(lastUse(b), lastUse(a)) || compare(b.id, a.id));
  for (const { id } of complete.slice(0, keep)) protectedIds.add(id);
  return stored
    .filter(({ id, state }) => (state === 'complete' || state === 'abandoned') && !protectedIds.has(id))
    .filter((release) => {
      const used = Date.parse(lastUse(release));
      return Number.isNaN(used) || now.getTime() - used >= lingerMs;
    })
    .map(({ id }) => id)
    .sort();
}

/**
 * Returns the time when a run may remove an unfinished release that has no pointer (RFC 3339, UTC). Returns
 * null if an attempt may still be working on it.
 */
export function removableSince(
  releases: Releases,
  release: StoredRelease,
  { lingerMs }: Pick<RetentionRule, 'lingerMs'>,
): string | null {
  const usedAt = uses(releases).lastUse(release);
  if (releases.ledger.removing.includes(release.id)) return usedAt;
  return release.state === 'abandoned' ? new Date(Date.parse(usedAt) + lingerMs).toISOString() : null;
}

interface Uses {
  leftAt: ReadonlyMap<ReleaseId, string | null>;
  channelLeftAt: ReadonlyMap<ReleaseId, string>;
  /** Returns the time when a release was written or was last in use, whichever is later. Empty if unknown. */
  lastUse: (release: StoredRelease) => string;
}

function uses({ ledger: { history, leftByChannels } }: Releases): Uses {
  const leftAt = new Map(history.map((each) => [each.id, each.leftAt]));
  const channelLeftAt = new Map(leftByChannels.map((each) => [each.id, each.leftAt]));
  const lastUse = ({ id, writtenAt }: StoredRelease): string =>
    [leftAt.get(id) ?? '', channelLeftAt.get(id) ?? '', writtenAt ?? ''].sort().at(-1) ?? '';
  return { leftAt, channelLeftAt, lastUse };
}

/** Reports whether it may be time to remove a release or channel, as far as the ledger shows. */
export function isRetirementDue(releases: Releases, rule: RetentionRule, now: Date): boolean {
  const { history, leftByChannels, removing } = releases.ledger;
  if (removing.length > 0 || expiredChannels(releases, now).length > 0) return true;
  const writtenAt = new Map(history.map(({ id, activatedAt }) => [id, activatedAt]));
  for (const { id } of leftByChannels) if (!writtenAt.has(id)) writtenAt.set(id, '');
  const known = Array.from(writtenAt, ([id, at]): StoredRelease => ({
    id,
    state: 'complete',
    writtenAt: at,
  }));
  return selectRetired(releases, known, rule, now).length > 0;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
