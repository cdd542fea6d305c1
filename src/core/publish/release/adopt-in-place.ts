import type { BundlePublication } from '../bundle-publication.ts';
import { pathWithin } from '../../bundle-path.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import { settleInterrupted } from '../../catalog/settle-interrupted.ts';
import { isSameBytes, readState, requireCatalog, type StoredState } from '../../catalog/store.ts';
import type { CoreContext } from '../../context.ts';
import { isContention } from '../../lease/lease.ts';
import { withLease } from '../../lease/with-lease.ts';
import { resumed } from '../../releases/ledger.ts';
import { releaseIdOf, releaseKey, type ReleaseId } from '../../releases/release.ts';
import { requireReleases } from '../../releases/store.ts';
import { activate } from '../../releases/switch.ts';
import type { Storage } from '../../storage/storage.ts';
import type { PublishRequest } from '../publish-request.ts';
import { adoptable } from './adoption.ts';
import { fillRelease, type Filling } from './fill-release.ts';
import { isInPlace, type Standing } from './standing.ts';

/** The release that becomes of what is published in place. */
export interface AdoptedInPlace {
  filling: Filling;
  /** The state in place that it was made of. */
  found: StoredState;
  /** What readers have once it is current; its bytes are still in place. */
  standing: Standing;
}

/**
 * The release that holds what the catalog in place records and what is there; what an interrupted attempt
 * may have touched is settled first, in a dry run as it is at the moment. Null if nothing is published in
 * place. `storage` is rooted at the bundle path. Throws `not_owned` if other owners have outputs there, as
 * `acquireLease` does where somebody is at work, or the storage's own error.
 */
export async function adoptInPlace(
  context: CoreContext,
  storage: Storage,
  standing: Standing,
  { bundle, owner, destination, destinationPath }: BundlePublication,
  { dryRun, leaseTimes }: Pick<PublishRequest, 'dryRun' | 'leaseTimes'>,
): Promise<AdoptedInPlace | null> {
  if (!isInPlace(standing)) return null;
  const { identity: source, created } = bundle;
  const pick = async (found: StoredState): Promise<AdoptedInPlace> => {
    const catalog = requireCatalog(found.state);
    const { outputs } = await settleInterrupted(storage, catalog);
    const settled = { ...catalog, outputs, pending: null };
    const otherwise = { source, created };
    const adopted = await adoptable(storage, settled, owner, { destinationPath, otherwise });
    const id = releaseIdOf(adopted.bundle.created, adopted.content);
    const same = new Set<string>(adopted.content.map(({ path }) => path));
    const release = { id, content: adopted.content, same };
    const plan = { owner, bundle: adopted.bundle };
    const into = pathWithin(destinationPath, releaseKey(id));
    const filling: Filling = { release, plan, base: '', destinationPath: into, destination };
    const there = outputs.filter(({ path }) => same.has(path));
    return { filling, found, standing: onceCurrent(standing, id, { ...settled, outputs: there }) };
  };
  if (dryRun || requireCatalog(standing.stored.state).pending === null) return pick(standing.stored);
  return withLease(context, storage, async ({ found }) => pick(found), leaseTimes);
}

/** What a publication comes to is decided as if that were done already. */
function onceCurrent(standing: Standing, current: ReleaseId, catalog: Catalog): Standing {
  const { releases, channel, pointer, stored } = standing;
  return {
    ...standing,
    // As the switch leaves it: without a pointer, nothing is held back.
    releases: { ...releases, ledger: resumed(releases.ledger), current },
    pointer: channel === null ? current : pointer,
    shown: current,
    stored: { ...stored, state: { kind: 'valid', catalog } },
  };
}

/**
 * Makes that release and makes it current; the files in place stay, and so does their catalog. False, with
 * nothing switched, if somebody published in place or switched meanwhile. Throws as `fillRelease` and
 * `changeReleases` do.
 */
export async function carryOutAdoption(
  context: CoreContext,
  storage: Storage,
  { filling, found }: AdoptedInPlace,
  { leaseTimes }: Pick<PublishRequest, 'leaseTimes'>,
): Promise<boolean> {
  const isStill = async (): Promise<boolean> => isSameBytes((await readState(storage)).raw, found.raw);
  const times = leaseTimes === undefined ? {} : { leaseTimes };
  await requireReleases(storage);
  try {
    await fillRelease(context, storage, filling, times);
    const to = filling.release.id;
    const { outcome } = await activate(context, storage, to, {
      ...{ dryRun: false, from: null, isStill, ...times },
    });
    return outcome !== 'refused';
  } catch (error) {
    // What was to be adopted may have gone while it was read.
    if (isContention(error) || !(await isStill())) return false;
    throw error;
  }
}
