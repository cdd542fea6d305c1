import type { BundlePublication } from '../bundle-publication.ts';
import { pathWithin } from '../../bundle-path.ts';
import { announcedPaths } from '../../catalog/recorded-paths.ts';
import { settleInterrupted } from '../../catalog/settle-interrupted.ts';
import { isSameBytes, readState, requireCatalog, type StoredState } from '../../catalog/store.ts';
import type { CoreContext } from '../../context.ts';
import { isContention } from '../../lease/lease.ts';
import { withLease } from '../../lease/with-lease.ts';
import { releaseIdOf, releaseKey } from '../../releases/release.ts';
import { requireReleases } from '../../releases/store.ts';
import { activate } from '../../releases/switch.ts';
import type { Storage } from '../../storage/storage.ts';
import type { PublishRequest } from '../publish-request.ts';
import { adoptable } from './adoption.ts';
import { fillRelease, type Filling } from './fill-release.ts';
import type { Standing } from './plan-release.ts';

/** The release that becomes of what is published in place. */
export interface AdoptedInPlace {
  filling: Filling;
  /** The state in place that it was made of. */
  found: StoredState;
}

/**
 * The release that holds what the catalog in place records and what is there; what an interrupted attempt may
 * have touched is settled first or, in a dry run, left out. Null if nothing is published in place. `storage`
 * is rooted at the bundle path. Throws `not_owned` if other owners have outputs there, as `acquireLease` does
 * where somebody is at work, or the storage's own error.
 */
export async function adoptInPlace(
  context: CoreContext,
  storage: Storage,
  { stored, isInPlace }: Standing,
  { bundle, owner, destination, destinationPath }: BundlePublication,
  { dryRun, leaseTimes }: Pick<PublishRequest, 'dryRun' | 'leaseTimes'>,
): Promise<AdoptedInPlace | null> {
  if (!isInPlace) return null;
  const pick = async (found: StoredState): Promise<AdoptedInPlace> => {
    const catalog = requireCatalog(found.state);
    const unvouched = announcedPaths(catalog.pending);
    const records =
      catalog.pending === null || dryRun
        ? catalog.outputs.filter(({ path }) => !unvouched.has(path))
        : (await settleInterrupted(storage, catalog)).outputs;
    const { identity: source, created } = bundle;
    const otherwise = { source, created };
    const adopted = await adoptable(storage, catalog, owner, { destinationPath, otherwise, records });
    const id = releaseIdOf(adopted.bundle.created, adopted.content);
    const same = new Set<string>(adopted.content.map(({ path }) => path));
    const release = { id, content: adopted.content, same };
    const plan = { owner, bundle: adopted.bundle };
    const into = pathWithin(destinationPath, releaseKey(id));
    return { filling: { release, plan, base: '', destinationPath: into, destination }, found };
  };
  if (dryRun || requireCatalog(stored.state).pending === null) return pick(stored);
  return withLease(context, storage, async ({ found }) => pick(found), leaseTimes);
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
