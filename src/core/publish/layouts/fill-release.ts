import { intentPaths } from '../../catalog/catalog.ts';
import { requireCatalog, type StoredState } from '../../catalog/catalog-store.ts';
import type { Lease } from '../../catalog/lease/lease.ts';
import { decideUnderLease, guardWithLease } from '../../catalog/lease/with-lease.ts';
import type { DestinationConfig } from '../../config/config.ts';
import type { CoreContext } from '../../context.ts';
import { WaybillError } from '../../lib/errors.ts';
import { compareCodeUnits, isReservedPath } from '../../lib/paths.ts';
import { releaseKey } from '../../releases/release.ts';
import { releaseStorage } from '../../releases/stored-releases.ts';
import { joinKey, type Key, keyOf } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { type AppliedPaths, applyUnderLease, noAppliedPaths } from '../apply/apply.ts';
import { findDamage } from '../decision/damage.ts';
import { byPath, matchesRecord } from '../decision/records.ts';
import type { Plan, PlannedOutput, Work } from '../plan.ts';
import type { PublishRequest } from '../publish-request.ts';
import type { PlannedRelease } from './plan-release.ts';

/*
 * Writes a release's files.
 */

/** A release to write, and where to find files that it can share. */
export interface ReleaseContents {
  release: PlannedRelease;
  plan: Pick<Plan, 'owner' | 'bundle'>;
  /**
   * A directory in the bundle path with the same files at the paths in `release.same`, or null if there is
   * none.
   */
  base: Key | '' | null;
  /** The release's path, relative to the destination root. */
  destinationPath: string;
  destination: Pick<DestinationConfig, 'id' | 'fileConcurrency'>;
}

/**
 * Writes everything that a release's directory is still missing, including files that an earlier attempt did
 * not get to or that are damaged. Files that are the same in the current release are linked or copied on the
 * server if the storage supports it. Takes the release's lease and follows the publication protocol.
 * `storage` is rooted at the bundle path.
 *
 * Throws `unmanaged_content` if there are foreign files in the directory, `state_conflict` if its catalog is
 * invalid, and the same errors as `apply`.
 */
export async function fillRelease(
  context: CoreContext,
  storage: Storage,
  filling: ReleaseContents,
  { onProgress }: Pick<PublishRequest, 'onProgress'> = {},
): Promise<AppliedPaths> {
  const { release, destination } = filling;
  const target = releaseStorage(storage, release.id);
  const fill = async (lease: Lease): Promise<AppliedPaths> => {
    const work = await workIn(target, lease.found, filling);
    if (work === null) return noAppliedPaths;
    const { id: destinationId, fileConcurrency } = destination;
    return applyUnderLease(context, work, {
      storage: target,
      lease,
      checked: onlyChanged(release, work),
      concurrency: fileConcurrency,
      onBytes: (count) => onProgress?.({ type: 'bytes', destinationId, count }),
      onOutput: (path) => onProgress?.({ type: 'output', destinationId, path }),
      duplicate: async (output, to) => duplicateFromBase(guardWithLease(storage, lease), filling, output, to),
    });
  };
  return decideUnderLease(context, target, fill);
}

/**
 * Leaves out the files that are the same in the current release. Only the others need to be checked for valid
 * names and free space: the shared ones already have valid names and take up no space.
 */
export function onlyChanged(
  { same }: Pick<PlannedRelease, 'same'>,
  { writes, removes }: Pick<Work, 'writes' | 'removes'>,
): Pick<Work, 'writes' | 'removes'> {
  return { writes: writes.filter(({ path }) => !same.has(path)), removes };
}

async function duplicateFromBase(
  storage: Storage,
  { release, base }: ReleaseContents,
  { path }: PlannedOutput,
  to: Key,
): Promise<boolean> {
  const target = releaseKey(release.id);
  if (base === null || base === target || !release.same.has(path)) return false;
  return (await storage.duplicate?.(joinKey(base, path), joinKey(target, to))) != null;
}

/** Returns what is left to do in a release's directory, or null if the release is complete. */
async function workIn(
  target: Storage,
  { state }: StoredState,
  { release: { content }, plan: { owner, bundle }, destinationPath }: ReleaseContents,
): Promise<Work | null> {
  const work = { owner, bundle, clears: false, untouched: [] };
  if (state.kind === 'absent') {
    await refuseContent(target, destinationPath);
    return { ...work, action: 'publish_new', writes: [...content], kept: [], removes: [] };
  }
  const { outputs, pending } = requireCatalog(state);
  const records = byPath(outputs);
  const announced = intentPaths(pending);
  const reusable = content.filter(
    (output) => !announced.has(output.path) && matchesRecord(records.get(output.path), output),
  );
  const damaged = await findDamage(target, reusable, target.localFiles === undefined);
  const kept = reusable.filter(({ path }) => !damaged.has(path));
  const stays = new Set(kept);
  const writes = content.filter((output) => !stays.has(output));
  const planned = new Set<string>(content.map(({ path }) => path));
  const known = [...outputs, ...(pending?.outputs ?? [])].map(({ path }) => keyOf(path));
  const removes = [...new Set([...known, ...(pending?.removes ?? [])])]
    .filter((key) => !planned.has(key))
    .sort(compareCodeUnits);
  if (pending === null && writes.length + removes.length === 0) return null;
  return { ...work, action: 'replace_catalog', writes, kept, removes };
}

/**
 * Refuses a directory that has files but no catalog. They cannot be ours, because an attempt always writes
 * its intent first.
 */
async function refuseContent(target: Storage, destinationPath: string): Promise<void> {
  for await (const { key } of target.list('', { recursive: true }))
    if (!isReservedPath(key))
      throw new WaybillError(
        'unmanaged_content',
        `"${destinationPath}" has the file "${key}" but no catalog: waybill did not publish it`,
        { hint: 'check the files there and move them away; they are not part of a release' },
      );
}
