import type { Catalog } from '../../catalog/catalog.ts';
import { readState, requireCatalog, type StoredState } from '../../catalog/catalog-store.ts';
import { destinationBusy } from '../../catalog/lease/lease.ts';
import { decideUnderLease, sweepAbandoned, withLease } from '../../catalog/lease/with-lease.ts';
import type { DestinationConfig } from '../../config/config.ts';
import type { CoreContext } from '../../context.ts';
import { compareCodeUnits } from '../../lib/paths.ts';
import { bundlePlace, pathsWithReleases } from '../../releases/bundle-place.ts';
import { removeExpiredChannels } from '../../releases/channels.ts';
import {
  expiredChannels,
  type Releases,
  withoutChannels,
  withoutReleases,
  withRemoving,
} from '../../releases/ledger.ts';
import type { ReleaseId } from '../../releases/release.ts';
import { changeReleases, readReleases } from '../../releases/releases-store.ts';
import { isRetirementDue, type RetentionRule, selectRetired } from '../../releases/retention.ts';
import { releaseStorage, surveyReleases } from '../../releases/stored-releases.ts';
import type { Owner } from '../../storage/identity.ts';
import { type Key, keyOf } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { applyUnderLease } from '../apply/apply.ts';
import type { Work } from '../plan.ts';

/*
 * Removes releases, either because of the retention rule (after publishing, and on a schedule) or because
 * their bundle path is unpublished. `storage` is rooted at the bundle path.
 */

export interface Retirement {
  rule: RetentionRule;
  /** How many files to keep or remove at a time. */
  concurrency: number;
}

/** Channel names and release ids, each sorted. Plain data. */
interface RetiredReleases {
  channels: string[];
  releases: ReleaseId[];
}

/**
 * Removes expired channels and the releases that the retention rule no longer keeps. Before the first file of
 * a release is deleted, the ledger marks the release as being removed, so it cannot become current again. It
 * is dropped from the ledger once all files are gone. If the process is killed, the next call finishes the
 * removal. Returns the channels and releases that were removed or, in a dry run, would be. Throws the same
 * errors as `changeReleases` and `apply`.
 */
export async function retireReleases(
  context: CoreContext,
  storage: Storage,
  retirement: Retirement,
  { dryRun }: { dryRun: boolean } = { dryRun: false },
): Promise<RetiredReleases> {
  const { stored, empty } = await surveyReleases(storage);
  const { found, channels } = await removeExpired(context, storage, dryRun);
  const select = (releases: Releases): ReleaseId[] =>
    selectRetired(releases, stored, retirement.rule, context.clock.now());
  const wanted = withRemoving(found.ledger, select(found)).removing;
  if (dryRun) return { channels, releases: [...wanted] };
  for (const id of empty) await sweepUnbegun(context, releaseStorage(storage, id));
  // A publisher that was killed between committing a release and switching to it has left its lock behind.
  for (const { id } of stored) await sweepAbandoned(context, releaseStorage(storage, id), { kind: 'absent' });
  if (wanted.length === 0) {
    // An earlier call may have been killed after its last change, leaving the bundle path's lock behind.
    await sweepAbandoned(context, storage, { kind: 'absent' });
    return { channels, releases: [] };
  }
  // Select again, because another process may have switched to one of these releases in the meantime.
  return { channels, releases: await removeSelected(context, storage, select, retirement) };
}

/**
 * Removes the channels that have expired. Returns their names, and the releases and channels that are left.
 */
async function removeExpired(
  context: CoreContext,
  storage: Storage,
  dryRun: boolean,
): Promise<{ found: Releases; channels: string[] }> {
  const found = await readReleases(storage);
  const now = context.clock.now();
  const channels = expiredChannels(found, now);
  if (channels.length === 0) return { found, channels };
  if (!dryRun) {
    await removeExpiredChannels(context, storage);
    return { found: await readReleases(storage), channels };
  }
  const ledger = withoutChannels(found, channels, now.toISOString());
  const pointers = new Map([...found.channels].filter(([name]) => !channels.includes(name)));
  return { found: { ...found, ledger, channels: pointers }, channels };
}

/**
 * Cleans up a release directory that has no catalog. If a process was killed before writing its intent or
 * after removing the catalog, there may be a complete or partial lock, or an empty directory. Taking and
 * releasing the lease gets rid of those. If another process holds the lease, it keeps it.
 */
async function sweepUnbegun(context: CoreContext, release: Storage): Promise<void> {
  if (release.rename === undefined) return;
  for await (const _entry of release.list('', { recursive: false }))
    return sweepAbandoned(context, release, { kind: 'absent' });
  await withLease(context, release, async () => undefined);
}

/**
 * Calls `retireReleases` after a commit. The commit stands even if this fails, so a failure is only logged.
 */
export async function retireAfterCommit(
  context: CoreContext,
  storage: Storage,
  retirement: Retirement,
): Promise<void> {
  try {
    await retireReleases(context, storage, retirement);
  } catch (error) {
    context.log.warn(
      { storage: storage.label, err: error },
      'removing old releases failed; the next run removes them',
    );
  }
}

/**
 * The channels and releases that were removed from one bundle path or, in a dry run, would be. Plain data.
 */
export interface TidiedPath extends RetiredReleases {
  destinationPath: string;
}

/**
 * Calls `retireReleases` for a bundle path or, if `path` is null, for every one that has releases. If the
 * ledger shows that there is nothing to remove, the path is skipped. Returns the paths where something was
 * removed, sorted. `root` is rooted at the destination. Throws the same errors as `retireReleases`.
 */
export async function tidyDestination(
  context: CoreContext,
  root: Storage,
  destination: Pick<DestinationConfig, 'mapping' | 'fileConcurrency' | 'releases'>,
  { dryRun, path }: { dryRun: boolean; path: string | null },
): Promise<TidiedPath[]> {
  const { releases: rule, mapping, fileConcurrency: concurrency } = destination;
  if (rule === null) return [];
  const only = path ?? (mapping === 'fixed' ? '.' : null);
  const tidied: TidiedPath[] = [];
  for (const destinationPath of only === null ? await pathsWithReleases(root) : [only]) {
    const { storage } = bundlePlace(root, destinationPath);
    if (!isRetirementDue(await readReleases(storage), rule, context.clock.now())) continue;
    const removed = await retireReleases(context, storage, { rule, concurrency }, { dryRun });
    if (removed.channels.length + removed.releases.length > 0) tidied.push({ destinationPath, ...removed });
  }
  return tidied;
}

/**
 * Removes these releases from a bundle path where no release is current. Works like `retireReleases` and
 * throws the same errors, and `destination_busy` if a release has become current in the meantime.
 */
export async function removeReleases(
  context: CoreContext,
  storage: Storage,
  ids: readonly ReleaseId[],
  options: Pick<Retirement, 'concurrency'>,
): Promise<void> {
  const allUnlessCurrent = ({ current }: Releases): readonly ReleaseId[] => {
    if (current !== null) throw destinationBusy(storage, null);
    return ids;
  };
  await removeSelected(context, storage, allUnlessCurrent, options);
}

/**
 * Removes the selected releases, and those that the ledger already marks as being removed. Updates the ledger
 * before and after.
 */
async function removeSelected(
  context: CoreContext,
  storage: Storage,
  select: (releases: Releases) => readonly ReleaseId[],
  options: Pick<Retirement, 'concurrency'>,
): Promise<ReleaseId[]> {
  const announced = await changeReleases(context, storage, async (releases) => {
    const ledger = withRemoving(releases.ledger, select(releases));
    const isNew = ledger.removing.length > releases.ledger.removing.length;
    return { result: ledger.removing, next: isNew ? { ledger, current: releases.current } : null };
  });
  for (const id of announced) {
    // Another process may have removed this release in the meantime, and a third may have published it again.
    const isStill = async (): Promise<boolean> => {
      const { ledger, current } = await readReleases(storage);
      return current !== id && ledger.removing.includes(id);
    };
    await removeRelease(context, releaseStorage(storage, id), { concurrency: options.concurrency, isStill });
  }
  await changeReleases(context, storage, async ({ ledger, current }) => ({
    result: null,
    next: { ledger: withoutReleases(ledger, announced), current },
  }));
  return [...announced];
}

interface ReleaseRemoval extends Pick<Retirement, 'concurrency'> {
  /**
   * Reports whether the release still has to be removed. Called under the lease, after reading the catalog.
   */
  isStill: () => Promise<boolean>;
}

/**
 * Removes a release. Deletes all outputs, no matter who owns them, then the paths that an interrupted attempt
 * may have written, and finally the catalog. Follows the protocol for unpublishing, so if the process is
 * killed, the next call can pick up from there. Files that are not recorded stay. Without a catalog, this
 * does nothing. `release` is rooted at the release.
 *
 * Throws `state_conflict` if the catalog is invalid, and the same errors as `apply`.
 */
export async function removeRelease(
  context: CoreContext,
  release: Storage,
  { isStill, concurrency }: ReleaseRemoval,
): Promise<void> {
  const { state } = await readState(release);
  // A removal that was killed right after its commit may have left its lock behind.
  if (state.kind === 'absent') return sweepAbandoned(context, release, state);
  requireCatalog(state);
  await decideUnderLease(context, release, async (lease) => {
    const work = removalOf(lease.found);
    if (work !== null && (await isStill()))
      await applyUnderLease(context, work, { storage: release, lease, concurrency });
  });
  // No attempt will come back to a removed release, so clean up after the lease now.
  await sweepAbandoned(context, release, (await readState(release)).state);
}

/** Returns the work that removes a release, or null if its catalog is gone already. */
function removalOf({ state }: StoredState): Work | null {
  if (state.kind === 'absent') return null;
  const catalog = requireCatalog(state);
  const { outputs, pending } = catalog;
  const removes = new Set<Key>([...outputs, ...(pending?.outputs ?? [])].map(({ path }) => keyOf(path)));
  for (const key of pending?.removes ?? []) removes.add(key);
  return {
    owner: ownerOf(catalog),
    action: 'unpublish',
    bundle: null,
    writes: [],
    kept: [],
    removes: [...removes].sort(compareCodeUnits),
    clears: false,
    untouched: [],
  };
}

/** Returns the owner to use in the removal's intent. */
function ownerOf({ outputs, pending, bundles }: Catalog): Owner {
  return (
    pending?.owner ?? outputs[0]?.owner ?? bundles[0]?.owner ?? { pipelineId: 'none', destinationId: 'none' }
  );
}
