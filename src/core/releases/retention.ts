import { channelTargets, expiredChannels, lastGood, type Releases } from './ledger.ts';
import type { ReleaseId } from './release.ts';
import type { StoredRelease } from './stored-releases.ts';

/*
 * Decides which releases to remove.
 */

export interface RetentionRule {
  /** The number of complete releases to keep in addition to the current one. */
  keep: number;
  /** How long a release is kept after it was written or last used, in milliseconds. */
  lingerMs: number;
}

/**
 * Returns the releases to remove, sorted: complete releases beyond the newest `keep`, and abandoned ones, in
 * both cases after `lingerMs`. Never removes the current release, the default rollback target, a channel's
 * release, or a release that is unreadable or being written. Releases that were only used by former channels
 * do not count toward `keep`. Removes nothing if the pointer does not point at a release, because it is then
 * unknown which files readers use.
 */
export function retired(
  releases: Releases,
  stored: readonly StoredRelease[],
  { keep, lingerMs }: RetentionRule,
  now: Date,
): ReleaseId[] {
  if (releases.foreignTarget !== null) return [];
  const { leftAt, channelLeftAt, lastUse } = uses(releases);
  const inUse = [releases.current, ...channelTargets(releases)];
  const protectedIds = new Set<ReleaseId | null>([...inUse, lastGood(releases)]);
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
 * Returns the time after which a run removes an unfinished release without a pointer, as RFC 3339 in UTC.
 * Returns null if an attempt may still be working on it.
 */
export function removableFrom(
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
  /** Returns when a release was written or last used, whichever is later; empty if neither is known. */
  lastUse: (release: StoredRelease) => string;
}

function uses({ ledger: { history, leftByChannels } }: Releases): Uses {
  const leftAt = new Map(history.map((each) => [each.id, each.leftAt]));
  const channelLeftAt = new Map(leftByChannels.map((each) => [each.id, each.leftAt]));
  const lastUse = ({ id, writtenAt }: StoredRelease): string =>
    [leftAt.get(id) ?? '', channelLeftAt.get(id) ?? '', writtenAt ?? ''].sort().at(-1) ?? '';
  return { leftAt, channelLeftAt, lastUse };
}

/** Reports whether a release or channel may be due for removal, judging by the ledger alone. */
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
  return retired(releases, known, rule, now).length > 0;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
