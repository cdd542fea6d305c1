import type { BundlePublication } from '../bundle-publication.ts';
import { describeBundlePath } from '../../bundle-path.ts';
import { readState, type StoredState } from '../../catalog/store.ts';
import type { CoreContext } from '../../context.ts';
import { hasCode, WaybillError } from '../../errors.ts';
import { isContention } from '../../lease/lease.ts';
import { whileHeld } from '../../lease/while-held.ts';
import { decidingUnderLease } from '../../lease/with-lease.ts';
import type { Lease } from '../../lease/lease.ts';
import {
  currentLinkKey,
  currentObjectKey,
  isOfReleases,
  releaseKey,
  type ReleaseId,
} from '../../releases/release.ts';
import type { Releases } from '../../releases/ledger.ts';
import { readReleases } from '../../releases/store.ts';
import { releaseIn } from '../../releases/stored-releases.ts';
import { joinKey } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { apply } from '../apply/apply.ts';
import { refuseObstructed } from '../apply/preflight.ts';
import { decideOnLatest, decider, type DecideOn } from '../decide-on-state.ts';
import { changesDestination, type Plan, type PlannedOutput } from '../plan.ts';
import type { PublishRequest } from '../publish-request.ts';
import { adoptable, type Adoptable } from './adoption.ts';

/** What readers have of a bundle path that is to be published in place from now on. */
export interface LeftReleases {
  current: ReleaseId;
  /** The names of the channels, whose pointers lie beside the current one. */
  channels: readonly string[];
  /** Rooted at the current release. */
  storage: Storage;
  /** Its catalog, which is valid. */
  stored: StoredState;
}

/** Where a publication in place may find releases: the bundle path, and the destination that it is of. */
interface Place {
  storage: Storage;
  root: Storage;
}

/**
 * The current release of the bundle path that `storage` is rooted at; null if there is none, or what is there
 * is not of this kind. Throws `state_conflict` if its catalog cannot be read, or the storage's own error.
 */
export async function releasesToLeave(
  storage: Storage,
  destinationPath: string,
): Promise<LeftReleases | null> {
  const found = await findReleases(storage);
  if (found?.current == null) return null;
  const { current } = found;
  const channels = found.ledger.channels.map(({ name }) => name);
  const release = releaseIn(storage, current);
  const stored = await readState(release);
  if (stored.state.kind === 'valid') return { current, channels, storage: release, stored };
  throw new WaybillError(
    'state_conflict',
    `${describeBundlePath(destinationPath)} is published with \`layout: releases\`, and the catalog of its current release ${current} cannot be read`,
    {
      hint: '`waybill releases rollback` goes to one that is whole; `waybill unpublish` takes all of them down',
    },
  );
}

/** A pointer or ledger that cannot be read is somebody's content. */
async function findReleases(storage: Storage): Promise<Releases | null> {
  try {
    return await readReleases(storage);
  } catch (error) {
    if (hasCode(error, 'state_conflict')) return null;
    throw error;
  }
}

async function currentOf(storage: Storage): Promise<ReleaseId | null> {
  return (await findReleases(storage))?.current ?? null;
}

/** The publication in place of what readers have. */
export interface Move {
  adopted: Adoptable;
  left: LeftReleases;
  decideOn: DecideOn;
  /** What it comes to without the lease; it may be refused. */
  plan: Plan;
}

/**
 * Decides how what the current release holds gets to its own place. The releases themselves stay, and are no
 * content there. `planned` is what is published afterwards. Throws `not_owned` if others have published the
 * release, `state_conflict` if an output would take the place of the pointer, as `decider` does, or the
 * storage's own error.
 */
export async function planMove(
  { storage, root }: Place,
  left: LeftReleases,
  { bundle, owner, destination, destinationPath }: BundlePublication,
  planned: readonly PlannedOutput[],
  { force }: PublishRequest,
): Promise<Move> {
  const { state } = left.stored;
  if (state.kind !== 'valid') throw new TypeError('a release that is left has a catalog');
  const { identity: source, created } = bundle;
  const adopted = await adoptable(left.storage, state.catalog, owner, {
    ...{ destinationPath, otherwise: { source, created } },
  });
  refusePointerPaths(destinationPath, [...adopted.content, ...planned], left.channels);
  const decideOn = decider({ storage: withoutReleases(storage, left.channels), root }, destination, {
    ...{ owner, bundle: adopted.bundle, workflow: 'replacement', force, destinationPath },
    planned: adopted.content,
  });
  const plan = await decideOnLatest(storage, await readState(storage), decideOn);
  return { adopted, left, decideOn, plan };
}

/** Throws what would keep it, and the publication that follows, from being carried out. */
export async function refuseObstructedMove(
  storage: Storage,
  { plan }: Pick<Move, 'plan'>,
  following: Pick<Plan, 'writes'>,
): Promise<void> {
  // What is linked or copied by the server takes no room that is known of.
  const moved = plan.writes.map((output) => ({ ...output, size: 0 }));
  const work = { writes: [...moved, ...following.writes], removes: plan.removes };
  await refuseObstructed(storage, work, { stateBytes: 0, isUnderLease: false });
}

/**
 * Carries it out, under the lease of the bundle path. False, with nothing changed, if others published or
 * switched meanwhile. Throws as `apply` and `decider` do.
 */
export async function carryOutMove(
  context: CoreContext,
  storage: Storage,
  move: Move,
  { destination }: BundlePublication,
  { leaseTimes }: Pick<PublishRequest, 'leaseTimes'>,
): Promise<boolean> {
  const { left, decideOn } = move;
  const underLease = async (lease: Lease): Promise<boolean> => {
    if (!isUnpublished(lease.found) || (await currentOf(storage)) !== left.current) return false;
    const plan = await decideOn(lease.found);
    if (!changesDestination(plan.action)) return false;
    await refuseObstructed(storage, plan, { stateBytes: lease.found.raw?.size ?? 0, isUnderLease: true });
    const { clock, log, signal } = context;
    await apply(plan, {
      ...{ storage: whileHeld(storage, lease), lease, clock, log, concurrency: destination.fileConcurrency },
      ...(signal === undefined ? {} : { signal }),
      duplicate: async ({ path }, to) => {
        const from = joinKey(releaseKey(left.current), path);
        return (await whileHeld(storage, lease).duplicate(from, to)) !== null;
      },
    });
    return true;
  };
  try {
    return await decidingUnderLease(context, storage, underLease, leaseTimes);
  } catch (error) {
    // The release may have been removed while it was read.
    if (isContention(error) || (await currentOf(storage)) !== left.current) return false;
    throw error;
  }
}

/** Whether nothing is published there yet, or an interrupted first publication has left its intent. Pure. */
export function isUnpublished({ state }: StoredState): boolean {
  if (state.kind === 'absent') return true;
  return state.kind === 'valid' && state.catalog.outputs.length === 0 && state.catalog.pending !== null;
}

/** For whoever looks at a bundle path without its releases. */
function withoutReleases(storage: Storage, channels: readonly string[]): Storage {
  return {
    ...storage,
    async *list(directory, options) {
      for await (const entry of storage.list(directory, options))
        if (!isOfReleases(entry.key, channels)) yield entry;
    },
  };
}

function refusePointerPaths(
  destinationPath: string,
  outputs: readonly PlannedOutput[],
  channels: readonly string[],
): void {
  const taken = outputs.find(({ path }) => isOfReleases(path, channels));
  if (taken === undefined) return;
  throw new WaybillError(
    'state_conflict',
    `${describeBundlePath(destinationPath)} is published with \`layout: releases\`, and the output "${taken.path}" would take the place of its pointer or of a release`,
    {
      hint: `take the releases down first (\`waybill unpublish\`), or publish in place at another path: "${currentLinkKey}", "${currentObjectKey}" and the releases are what readers follow`,
    },
  );
}
