import { readState, requireCatalog, type StoredState } from '../../catalog/catalog-store.ts';
import { isContention, type Lease } from '../../catalog/lease/lease.ts';
import { decideUnderLease, guardWithLease } from '../../catalog/lease/with-lease.ts';
import { hasCode, WaybillError } from '../../lib/errors.ts';
import { describeBundlePath } from '../../lib/paths.ts';
import type { Releases } from '../../releases/ledger.ts';
import {
  currentLinkKey,
  currentObjectKey,
  isReleaseKey,
  type ReleaseId,
  releaseKey,
} from '../../releases/release.ts';
import { readReleases } from '../../releases/releases-store.ts';
import { releaseStorage } from '../../releases/stored-releases.ts';
import { joinKey } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { delegate } from '../../storage/wrappers/delegate.ts';
import { applyUnderLease, refuseObstructed } from '../apply/apply.ts';
import { type DecideOn, decideOnLatest, newDecider } from '../decide-on-state.ts';
import { changesDestination, type DecisionBasis, type Plan, type PlannedOutput } from '../plan.ts';
import type { Migration, PublicationTask } from './layout.ts';
import { formerContent } from './migration.ts';

/*
 * Moves a bundle path from releases to the in-place layout by publishing the current release in place.
 */

/** The current release of a bundle path that is switching to the in-place layout. */
export interface FormerRelease {
  current: ReleaseId;
  /** The names of the channels. Their pointers are stored next to the current one. */
  channels: readonly string[];
  /** Rooted at the current release. */
  storage: Storage;
  /** The current release's state, which is known to be valid. */
  stored: StoredState;
}

/**
 * Returns the current release at the bundle path that `storage` is rooted at, or null if there is none or if
 * the files there do not look like releases. Throws `state_conflict` if the release's catalog is not valid,
 * or the storage's error.
 */
export async function formerRelease(
  storage: Storage,
  destinationPath: string,
): Promise<FormerRelease | null> {
  const found = await findReleases(storage);
  if (found?.current == null) return null;
  const { current } = found;
  const channels = found.ledger.channels.map(({ name }) => name);
  const release = releaseStorage(storage, current);
  const stored = await readState(release);
  if (stored.state.kind === 'valid') return { current, channels, storage: release, stored };
  throw new WaybillError(
    'state_conflict',
    `${describeBundlePath(destinationPath)} is published with \`layout: releases\`, and the catalog of its current release ${current} cannot be read`,
    {
      hint: 'run waybill releases rollback to return to a complete release, or waybill unpublish to remove all of them',
    },
  );
}

/**
 * Reads the releases. Returns null if the pointer or ledger makes no sense, which means they are not ours.
 */
async function findReleases(storage: Storage): Promise<Releases | null> {
  try {
    return await readReleases(storage);
  } catch (error) {
    if (hasCode(error, 'state_conflict')) return null;
    throw error;
  }
}

/** Reports whether there is a current release at the bundle path, whatever is published there in place. */
export async function hasCurrentRelease(storage: Storage): Promise<boolean> {
  return (await currentOf(storage)) !== null;
}

async function currentOf(storage: Storage): Promise<ReleaseId | null> {
  return (await findReleases(storage))?.current ?? null;
}

export interface MigrationInPlace extends Migration {
  /** The decision that was made without the lease. It may be to refuse. */
  plan: Plan;
}

/**
 * Plans how to publish the current release in place. The releases themselves stay, and do not get in the way.
 * `planned` contains the outputs that will be published next. Throws `not_owned` if the release has another
 * owner, `state_conflict` if an output has the same name as the pointer, any error from `newDecider`, or
 * the storage's error.
 */
export async function migrationInPlace(
  task: PublicationTask,
  former: FormerRelease,
  input: DecisionBasis,
): Promise<MigrationInPlace> {
  const { storage, root, publication } = task;
  const { channels, stored } = former;
  const { bundle, content } = await formerContent(former.storage, requireCatalog(stored.state), input);
  refusePointerPaths(input.destinationPath, [...content, ...input.planned], channels);
  const decideOn = newDecider(
    { storage: withoutReleases(storage, channels), root },
    publication.destination,
    {
      ...input,
      bundle,
      workflow: 'replacement',
      planned: content,
    },
  );
  const plan = await decideOnLatest(storage, await readState(storage), decideOn);
  return { plan, execute: async () => carryOut(task, former, decideOn) };
}

/** Like `refuseObstructed`, but for a migration together with the publication after it. */
export async function refuseObstructedMigration(
  storage: Storage,
  { plan }: Pick<MigrationInPlace, 'plan'>,
  following: Pick<Plan, 'writes'>,
): Promise<void> {
  // These files will be linked or copied on the server, so they need no extra space.
  const moved = plan.writes.map((output) => ({ ...output, size: 0 }));
  const work = { writes: [...moved, ...following.writes], removes: plan.removes };
  await refuseObstructed(storage, work, { stateBytes: 0, isUnderLease: false });
}

/**
 * Takes the bundle path's lease and publishes the release in place. Throws the same errors as `apply` and
 * `newDecider`.
 */
async function carryOut(
  { context, storage, publication: { destination } }: PublicationTask,
  { current }: FormerRelease,
  decideOn: DecideOn,
): Promise<boolean> {
  const underLease = async (lease: Lease): Promise<boolean> => {
    if (!isUnpublished(lease.found) || (await currentOf(storage)) !== current) return false;
    const plan = await decideOn(lease.found);
    if (!changesDestination(plan.action)) return false;
    await applyUnderLease(context, plan, {
      storage,
      lease,
      concurrency: destination.fileConcurrency,
      duplicate: async ({ path }, to) => {
        const from = joinKey(releaseKey(current), path);
        return (await guardWithLease(storage, lease).duplicate?.(from, to)) != null;
      },
    });
    return true;
  };
  try {
    return await decideUnderLease(context, storage, underLease);
  } catch (error) {
    // Another process may have removed the release while we were reading it.
    if (isContention(error) || (await currentOf(storage)) !== current) return false;
    throw error;
  }
}

/**
 * Reports whether nothing has been published in place yet. There is either no state, or only the intent of a
 * first publication.
 */
export function isUnpublished({ state }: StoredState): boolean {
  if (state.kind === 'absent') return true;
  return state.kind === 'valid' && state.catalog.outputs.length === 0 && state.catalog.pending !== null;
}

/** Returns the bundle path's storage with the releases hidden. */
function withoutReleases(storage: Storage, channels: readonly string[]): Storage {
  return delegate(storage, {
    async *list(directory, options) {
      for await (const entry of storage.list(directory, options))
        if (!isReleaseKey(entry.key, channels)) yield entry;
    },
  });
}

function refusePointerPaths(
  destinationPath: string,
  outputs: readonly PlannedOutput[],
  channels: readonly string[],
): void {
  const conflict = outputs.find(({ path }) => isReleaseKey(path, channels));
  if (conflict === undefined) return;
  throw new WaybillError(
    'state_conflict',
    `${describeBundlePath(destinationPath)} is published with \`layout: releases\`, and the output "${conflict.path}" would overwrite its pointer or a release`,
    {
      hint: `remove the releases first with waybill unpublish, or publish in place at another path: readers follow "${currentLinkKey}", "${currentObjectKey}" and the releases`,
    },
  );
}
