import type { Catalog } from '../../catalog/catalog.ts';
import { destinationBusy } from '../../catalog/lease/lease.ts';
import { decidingUnderLease, sweepAbandoned, withLease } from '../../catalog/lease/with-lease.ts';
import { readState, requireCatalog, type StoredState } from '../../catalog/store.ts';
import type { DestinationConfig } from '../../config/config.ts';
import type { CoreContext } from '../../context.ts';
import { compareCodeUnits } from '../../lib/paths.ts';
import { removeExpiredChannels } from '../../releases/channels.ts';
import {
  announcing,
  expiredChannels,
  forgetting,
  type Releases,
  withoutChannels,
} from '../../releases/ledger.ts';
import { pathsWithReleases, placeAt } from '../../releases/place.ts';
import type { ReleaseId } from '../../releases/release.ts';
import { isRetirementDue, type RetentionRule, retired } from '../../releases/retention.ts';
import { changeReleases, readReleases } from '../../releases/store.ts';
import { releaseIn, surveyReleases } from '../../releases/stored-releases.ts';
import type { Owner } from '../../storage/identity.ts';
import { type Key, keyOf } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { applyUnderLease } from '../apply/apply.ts';
import type { Work } from '../plan.ts';

/*
 * Removes releases, either by retention (after publications and on a schedule) or along with their bundle
 * path. `storage` is rooted at the bundle path.
 */

export interface Retirement {
  rule: RetentionRule;
  /** The number of files kept or removed concurrently. */
  concurrency: number;
}

/** Channel names and release ids, each sorted. Plain data. */
export interface Retired {
  channels: string[];
  releases: ReleaseId[];
}

/**
 * Removes expired channels, and releases according to the retention rule. A release is announced in the
 * ledger before its first file is removed, so that it can no longer become current. It is dropped from the
 * ledger once it is removed. If the process is killed, the next call finishes the removal. Returns the
 * removed channels and releases or, in a dry run, those that would be removed. Throws the same errors as
 * `changeReleases` and `apply`.
 */
export async function retireReleases(
  context: CoreContext,
  storage: Storage,
  retirement: Retirement,
  { dryRun }: { dryRun: boolean } = { dryRun: false },
): Promise<Retired> {
  const { stored, empty } = await surveyReleases(storage);
  const { found, channels } = await withoutExpired(context, storage, dryRun);
  const select = (releases: Releases): ReleaseId[] =>
    retired(releases, stored, retirement.rule, context.clock.now());
  const wanted = announcing(found.ledger, select(found)).removing;
  if (dryRun) return { channels, releases: [...wanted] };
  for (const id of empty) await sweepUnbegun(context, releaseIn(storage, id));
  // A publisher that was killed between committing a release and switching to it also left its lock.
  for (const { id } of stored) await sweepAbandoned(context, releaseIn(storage, id), { kind: 'absent' });
  if (wanted.length === 0) {
    // A call that was killed after its last change may have left the bundle path's lock.
    await sweepAbandoned(context, storage, { kind: 'absent' });
    return { channels, releases: [] };
  }
  // Select again: another process may have switched to one of these releases in the meantime.
  return { channels, releases: await removeSelected(context, storage, select, retirement) };
}

/** Removes the expired channels. Returns their names and the remaining releases and channels. */
async function withoutExpired(
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
 * Sweeps a release directory without a catalog. A process that was killed before it wrote its intent, or
 * after it removed the catalog, may have left a full or partial lock, or an empty directory. Acquiring and
 * releasing the lease removes these. A live holder keeps its lease.
 */
async function sweepUnbegun(context: CoreContext, release: Storage): Promise<void> {
  if (release.rename === undefined) return;
  for await (const _entry of release.list('', { recursive: false }))
    return sweepAbandoned(context, release, { kind: 'absent' });
  await withLease(context, release, async () => undefined);
}

/** Like `retireReleases`, after a commit. A failure does not undo the commit, so it is only logged. */
export async function retireAfterwards(
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

/** The channels and releases that were removed at one bundle path, or would be in a dry run. Plain data. */
export interface TidiedPath extends Retired {
  destinationPath: string;
}

/**
 * Calls `retireReleases` for one bundle path or, if `path` is null, for all with releases. Skips paths whose
 * ledgers show nothing to remove. Returns the paths with removals, sorted. `root` is rooted at the
 * destination. Throws the same errors as `retireReleases`.
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
    const { storage } = placeAt(root, destinationPath);
    if (!isRetirementDue(await readReleases(storage), rule, context.clock.now())) continue;
    const removed = await retireReleases(context, storage, { rule, concurrency }, { dryRun });
    if (removed.channels.length + removed.releases.length > 0) tidied.push({ destinationPath, ...removed });
  }
  return tidied;
}

/**
 * Removes these releases from a bundle path without a current release, in the same way as `retireReleases`.
 * Throws `destination_busy` if a release became current in the meantime, and the same errors as
 * `retireReleases`.
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
 * Removes the selected releases and those that were already announced, updating the ledger before and after.
 */
async function removeSelected(
  context: CoreContext,
  storage: Storage,
  select: (releases: Releases) => readonly ReleaseId[],
  options: Pick<Retirement, 'concurrency'>,
): Promise<ReleaseId[]> {
  const announced = await changeReleases(context, storage, async (releases) => {
    const ledger = announcing(releases.ledger, select(releases));
    const isNew = ledger.removing.length > releases.ledger.removing.length;
    return { result: ledger.removing, next: isNew ? { ledger, current: releases.current } : null };
  });
  for (const id of announced) {
    // In the meantime, another process may have removed the release, and a third may have published it again.
    const isStill = async (): Promise<boolean> => {
      const { ledger, current } = await readReleases(storage);
      return current !== id && ledger.removing.includes(id);
    };
    await removeRelease(context, releaseIn(storage, id), { concurrency: options.concurrency, isStill });
  }
  await changeReleases(context, storage, async ({ ledger, current }) => ({
    result: null,
    next: { ledger: forgetting(ledger, announced), current },
  }));
  return [...announced];
}

interface ReleaseRemoval extends Pick<Retirement, 'concurrency'> {
  /**
   * Returns true if the release must still be removed. Called under the lease, after the catalog was read.
   */
  isStill: () => Promise<boolean>;
}

/**
 * Removes a release: all owners' outputs, the paths announced by an interrupted attempt, and finally the
 * catalog. Uses the unpublishing protocol, so that the next call can finish if the process is killed. Keeps
 * unrecorded files. Does nothing without a catalog. `release` is rooted at the release.
 *
 * Throws `state_conflict` if the catalog is invalid, and the same errors as `apply`.
 */
export async function removeRelease(
  context: CoreContext,
  release: Storage,
  { isStill, concurrency }: ReleaseRemoval,
): Promise<void> {
  const { state } = await readState(release);
  // A removal that was killed after its commit may have left its lock.
  if (state.kind === 'absent') return sweepAbandoned(context, release, state);
  requireCatalog(state);
  await decidingUnderLease(context, release, async (lease) => {
    const work = removalOf(lease.found);
    if (work !== null && (await isStill()))
      await applyUnderLease(context, release, lease, work, { concurrency });
  });
  // No later attempt visits a removed release, so sweep the leftovers of the lease now.
  await sweepAbandoned(context, release, (await readState(release)).state);
}

/** Returns the work to remove a release, or null if its catalog is already removed. */
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

/** Returns the owner to name in the removal's intent. */
function ownerOf({ outputs, pending, bundles }: Catalog): Owner {
  return (
    pending?.owner ?? outputs[0]?.owner ?? bundles[0]?.owner ?? { pipelineId: 'none', destinationId: 'none' }
  );
}
