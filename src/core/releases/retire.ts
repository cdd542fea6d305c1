import { destinationBusy, type LeaseTimes } from '../lease/lease.ts';
import { sweepAbandoned, withLease } from '../lease/with-lease.ts';
import type { Storage } from '../storage/storage.ts';
import { removeExpiredChannels } from './channels.ts';
import { announcing, expiredChannels, forgetting, withoutChannels, type Releases } from './ledger.ts';
import type { ReleaseId } from './release.ts';
import { retired, type RetentionRule } from './retention.ts';
import { changeReleases, readReleases, type ReleasesContext } from './store.ts';
import { releaseIn, surveyReleases } from './stored-releases.ts';

export interface RetireOptions {
  rule: RetentionRule;
  /**
   * Removes all of a release, whether or not an earlier call has begun with it. Leaves it alone if `isStill`
   * says no: it has to be asked under the lease of the release, after its catalog was read.
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
 * Removes the channels whose time is over, and the releases that the rule retires. Each release is announced
 * in the ledger before anything of it goes, so that it cannot become current from then on, and is forgotten
 * once it is gone: after a kill, the next call finishes it. Throws as `changeReleases` does, or what `remove`
 * throws.
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
  // Killed between the commit of a release and the switch to it: nobody comes back there, either.
  for (const { id } of stored) await sweepAbandoned(context, releaseIn(storage, id), { kind: 'absent' });
  if (wanted.length === 0 && found.ledger.removing.length === 0) {
    // A call that was killed after its last change may have left its lock.
    await sweepAbandoned(context, storage, { kind: 'absent' });
    return { channels, releases: [] };
  }
  const stillWanted = (releases: Releases): ReleaseId[] =>
    // Another process may have switched to one of them since; one that is new since is not looked at.
    retired(releases, stored, rule, clock.now());
  const releases = await removeAll(context, storage, stillWanted, {
    remove,
    ...(leaseTimes === undefined ? {} : { leaseTimes }),
  });
  return { channels, releases };
}

/** What there is once the channels whose time is over are gone, and their names. */
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
 * Whoever was killed before it had written its intent, or once it had removed the catalog, left a lock, part
 * of one, or the bare directory, and nobody comes back there. Taking the lease and giving it back sweeps all
 * of these; somebody who is at work keeps its own.
 */
async function sweepUnbegun(context: ReleasesContext, release: Storage): Promise<void> {
  if (release.facts.rename === 'none') return;
  for await (const _entry of release.list('', { recursive: false }))
    return sweepAbandoned(context, release, { kind: 'absent' });
  await withLease(context, release, async () => undefined);
}

/**
 * Removes these releases, as `retireReleases` does, of a bundle path that has no current one. Throws
 * `destination_busy` if there is one by now, and as `retireReleases`.
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
  const goes = await changeReleases(
    context,
    storage,
    async (releases) => {
      const ledger = announcing(releases.ledger, select(releases));
      const isNew = ledger.removing.length > releases.ledger.removing.length;
      return { result: ledger.removing, next: isNew ? { ledger, current: releases.current } : null };
    },
    leaseTimes,
  );
  // Another process may have removed it meanwhile, and a third have published it anew.
  const isStill = async (id: ReleaseId): Promise<boolean> => {
    const { ledger, current } = await readReleases(storage);
    return current !== id && ledger.removing.includes(id);
  };
  for (const id of goes) await remove(id, async () => isStill(id));
  await changeReleases(
    context,
    storage,
    async ({ ledger, current }) => ({ result: null, next: { ledger: forgetting(ledger, goes), current } }),
    leaseTimes,
  );
  return [...goes];
}
