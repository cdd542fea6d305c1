import { expiredChannels, lastGood, ledTo, type Releases } from './ledger.ts';
import type { ReleaseId } from './release.ts';

/** One release as it is found in storage. */
export interface StoredRelease {
  id: ReleaseId;
  /**
   * `complete`: its catalog says that all of it is there. `writing`: an attempt may be at work on it.
   * `abandoned`: an attempt began it, and nobody is at work any more. `unreadable`: its catalog is invalid or
   * of a newer version.
   */
  state: 'complete' | 'writing' | 'abandoned' | 'unreadable';
  /** RFC 3339, UTC: when its catalog was written. Null if that is not known. */
  writtenAt: string | null;
}

export interface RetentionRule {
  /** So many complete releases stay beside the current one. */
  keep: number;
  /** A release stays for so long after it was written, or after another became current instead, in ms. */
  lingerMs: number;
}

/**
 * The releases to remove, sorted: what is beyond the newest `keep` and has lingered, and what was begun and
 * abandoned. Never the current one, the one that a rollback would go to, one that a channel leads to, one
 * that is being written, or one that nobody can read. What has no channel any more, and was never current, is
 * not among those that are kept. Nothing at all if the pointer names something else than a release: nobody
 * knows then what readers see. Pure.
 */
export function retired(
  releases: Releases,
  stored: readonly StoredRelease[],
  { keep, lingerMs }: RetentionRule,
  now: Date,
): ReleaseId[] {
  if (releases.foreignTarget !== null) return [];
  const { leftAt, channelLeftAt, lastUse } = uses(releases);
  const inUse = [releases.current, ...ledTo(releases)];
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
 * From when on a run removes an unfinished release that no pointer leads to: RFC 3339, UTC. null if it is
 * kept because an attempt may still be at work on it. Pure.
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
  /** When a release was written or last left by readers, whichever is later; empty if neither is known. */
  lastUse: (release: StoredRelease) => string;
}

function uses({ ledger: { history, leftByChannels } }: Releases): Uses {
  const leftAt = new Map(history.map((each) => [each.id, each.leftAt]));
  const channelLeftAt = new Map(leftByChannels.map((each) => [each.id, each.leftAt]));
  const lastUse = ({ id, writtenAt }: StoredRelease): string =>
    [leftAt.get(id) ?? '', channelLeftAt.get(id) ?? '', writtenAt ?? ''].sort().at(-1) ?? '';
  return { leftAt, channelLeftAt, lastUse };
}

/** Whether something may be retired, as far as the ledger alone tells: no release is looked at. Pure. */
export function isRetirementDue(releases: Releases, rule: RetentionRule, now: Date): boolean {
  const { history, leftByChannels, removing } = releases.ledger;
  if (removing.length > 0 || expiredChannels(releases, now).length > 0) return true;
  const writtenAt = new Map(history.map(({ id, activatedAt }) => [id, activatedAt]));
  for (const { id } of leftByChannels) if (!writtenAt.has(id)) writtenAt.set(id, '');
  const known = Array.from(writtenAt, ([id, at]): StoredRelease => ({
    ...{ id, state: 'complete', writtenAt: at },
  }));
  return retired(releases, known, rule, now).length > 0;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
