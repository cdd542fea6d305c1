import { destinationBusy, type LeaseTimes } from '../catalog/lease/lease.ts';
import { sweepAbandoned, withLease } from '../catalog/lease/with-lease.ts';
import type { Storage } from '../storage/storage.ts';
import { removeExpiredChannels } from './channels.ts';
import {
  announcing,
  expiredChannels,
  forgetting,
  lastGood,
  ledTo,
  type Releases,
  withoutChannels,
} from './ledger.ts';
import type { ReleaseId } from './release.ts';
import { changeReleases, readReleases, type ReleasesContext } from './store.ts';
import { releaseIn, type StoredRelease, surveyReleases } from './stored-releases.ts';

/*
 * Removes expired channels and the releases that retention no longer keeps.
 */

interface RetireOptions {
  rule: RetentionRule;
  /**
   * Removes a release, including one that an earlier call removed in part. Must keep the release if `isStill`
   * returns false. Call `isStill` under the lease of the release, after reading its catalog.
   */
  remove: (id: ReleaseId, isStill: () => Promise<boolean>) => Promise<void>;
  dryRun: boolean;
  /** Only tests pass their own. */
  leaseTimes?: LeaseTimes;
}

/** Names of channels, and ids of releases; sorted. */
export interface Retired {
  channels: string[];
  releases: ReleaseId[];
}

/**
 * Removes the expired channels and the releases that `rule` retires. A release is announced in the ledger
 * before its first file is removed, so that it can no longer become current. It is dropped from the ledger
 * once it is removed. After a kill, the next call finishes the removal. Throws like `changeReleases`, or the
 * error of `remove`.
 */
export async function retireReleases(
  context: ReleasesContext,
  storage: Storage,
  { rule, remove, dryRun, leaseTimes }: RetireOptions,
): Promise<Retired> {
  const { clock } = context;
  const { stored, empty } = await surveyReleases(storage);
  const { found, channels } = await withoutExpired(context, storage, { dryRun, leaseTimes });
  const wanted = retired(found, stored, rule, clock.now());
  if (dryRun) return { channels, releases: [...announcing(found.ledger, wanted).removing] };
  for (const id of empty) await sweepUnbegun(context, releaseIn(storage, id));
  // A publisher that was killed between the commit of a release and the switch left its lock, too.
  for (const { id } of stored) await sweepAbandoned(context, releaseIn(storage, id), { kind: 'absent' });
  if (wanted.length === 0 && found.ledger.removing.length === 0) {
    // A call that was killed after its last change may have left the lock of the bundle path.
    await sweepAbandoned(context, storage, { kind: 'absent' });
    return { channels, releases: [] };
  }
  const stillWanted = (releases: Releases): ReleaseId[] =>
    // Decided again: another process may have switched to one of these releases in the meantime.
    retired(releases, stored, rule, clock.now());
  const releases = await removeAll(context, storage, stillWanted, {
    remove,
    leaseTimes,
  });
  return { channels, releases };
}

/** Removes the expired channels. Returns their names and the remaining releases and channels. */
async function withoutExpired(
  context: ReleasesContext,
  storage: Storage,
  { dryRun, leaseTimes }: { dryRun: boolean; leaseTimes: LeaseTimes | undefined },
): Promise<{ found: Releases; channels: string[] }> {
  const found = await readReleases(storage);
  const now = context.clock.now();
  const channels = expiredChannels(found, now);
  if (channels.length === 0) return { found, channels };
  if (!dryRun) {
    await removeExpiredChannels(context, storage, leaseTimes);
    return { found: await readReleases(storage), channels };
  }
  const ledger = withoutChannels(found, channels, now.toISOString());
  const pointers = new Map([...found.channels].filter(([name]) => !channels.includes(name)));
  return { found: { ...found, ledger, channels: pointers }, channels };
}

/**
 * Sweeps the directory of a release without a catalog. A process that was killed before it wrote its intent,
 * or after it removed the catalog, left a lock, a part of one, or an empty directory. Taking and releasing
 * the lease removes these. A live holder keeps its lease.
 */
async function sweepUnbegun(context: ReleasesContext, release: Storage): Promise<void> {
  if (release.rename === undefined) return;
  for await (const _entry of release.list('', { recursive: false }))
    return sweepAbandoned(context, release, { kind: 'absent' });
  await withLease(context, release, async () => undefined);
}

/**
 * Removes these releases of a bundle path without a current release, in the same way as `retireReleases`.
 * Throws `destination_busy` if a release became current in the meantime, and like `retireReleases`.
 */
export async function removeReleases(
  context: ReleasesContext,
  storage: Storage,
  ids: readonly ReleaseId[],
  how: Pick<RetireOptions, 'remove' | 'leaseTimes'>,
): Promise<ReleaseId[]> {
  const allUnlessCurrent = ({ current }: Releases): readonly ReleaseId[] => {
    if (current !== null) throw destinationBusy(storage, null);
    return ids;
  };
  return removeAll(context, storage, allUnlessCurrent, how);
}

async function removeAll(
  context: ReleasesContext,
  storage: Storage,
  select: (releases: Releases) => readonly ReleaseId[],
  { remove, leaseTimes }: Pick<RetireOptions, 'remove' | 'leaseTimes'>,
): Promise<ReleaseId[]> {
  const announced = await changeReleases(
    context,
    storage,
    async (releases) => {
      const ledger = announcing(releases.ledger, select(releases));
      const isNew = ledger.removing.length > releases.ledger.removing.length;
      return { result: ledger.removing, next: isNew ? { ledger, current: releases.current } : null };
    },
    leaseTimes,
  );
  // Another process may have removed it in the meantime, and a third one published it again.
  const isStill = async (id: ReleaseId): Promise<boolean> => {
    const { ledger, current } = await readReleases(storage);
    return current !== id && ledger.removing.includes(id);
  };
  for (const id of announced) await remove(id, async () => isStill(id));
  await changeReleases(
    context,
    storage,
    async ({ ledger, current }) => ({
      result: null,
      next: { ledger: forgetting(ledger, announced), current },
    }),
    leaseTimes,
  );
  return [...announced];
}

/*
 * Decides which releases to remove.
 */

interface RetentionRule {
  /** The number of complete releases to keep in addition to the current one. */
  keep: number;
  /** How long a release is kept after it was written or last in use, in milliseconds. */
  lingerMs: number;
}

/**
 * The releases to remove, sorted: complete ones beyond the newest `keep`, and abandoned ones, each after
 * `lingerMs`. Never removes the current release, the default target of a rollback, a release of a channel, or
 * one that is being written or unreadable. Releases that only former channels used do not count for `keep`.
 * Removes nothing if the pointer does not point at a release, because it is unknown which files readers use.
 * Pure.
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
 * The time after which a run removes an unfinished release without a pointer: RFC 3339, UTC. null if it is
 * kept because an attempt may still be working on it. Pure.
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
  /** When a release was written or last in use, whichever is later; empty if neither is known. */
  lastUse: (release: StoredRelease) => string;
}

function uses({ ledger: { history, leftByChannels } }: Releases): Uses {
  const leftAt = new Map(history.map((each) => [each.id, each.leftAt]));
  const channelLeftAt = new Map(leftByChannels.map((each) => [each.id, each.leftAt]));
  const lastUse = ({ id, writtenAt }: StoredRelease): string =>
    [leftAt.get(id) ?? '', channelLeftAt.get(id) ?? '', writtenAt ?? ''].sort().at(-1) ?? '';
  return { leftAt, channelLeftAt, lastUse };
}

/** Whether the ledger suggests that a release or channel can be removed. Looks at no release. Pure. */
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
