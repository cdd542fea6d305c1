import { announcedPaths } from '../../catalog/catalog.ts';
import type { Lease } from '../../catalog/lease/lease.ts';
import { decidingUnderLease, whileHeld } from '../../catalog/lease/with-lease.ts';
import { requireCatalog, type StoredState } from '../../catalog/store.ts';
import type { DestinationConfig } from '../../config/config.ts';
import type { CoreContext } from '../../context.ts';
import { WaybillError } from '../../lib/errors.ts';
import { compareCodeUnits, isReservedPath } from '../../lib/paths.ts';
import { releaseKey } from '../../releases/release.ts';
import { releaseIn } from '../../releases/stored-releases.ts';
import { joinKey, type Key, keyOf } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { type Applied, applyUnderLease, nothingApplied } from '../apply/apply.ts';
import { damagedAmong } from '../decision/damage.ts';
import { byPath, isRecordedAs } from '../decision/records.ts';
import type { Plan, PlannedOutput, Work } from '../plan.ts';
import type { PublishRequest } from '../publish-request.ts';
import type { PlannedRelease } from './plan-release.ts';

/*
 * Writes the files of a release.
 */

/** A release to write, and the directory whose files it can reuse. */
export interface Filling {
  release: PlannedRelease;
  plan: Pick<Plan, 'owner' | 'bundle'>;
  /** A directory in the bundle path that contains the same files at `release.same`; null if there is none. */
  base: Key | '' | null;
  /** The release's path, relative to the destination root. */
  destinationPath: string;
  destination: Pick<DestinationConfig, 'id' | 'fileConcurrency'>;
}

/**
 * Completes a release's directory, under its lease and with the publication protocol. Finishes an earlier
 * attempt's work and rewrites damaged files. If the storage supports it, files that exist in the current
 * release are linked or copied from it on the server. `storage` is rooted at the bundle path.
 *
 * Throws `unmanaged_content` if the directory contains foreign files, `state_conflict` if its catalog is
 * invalid, and the same errors as `apply`.
 */
export async function fillRelease(
  context: CoreContext,
  storage: Storage,
  filling: Filling,
  { onProgress }: Pick<PublishRequest, 'onProgress'> = {},
): Promise<Applied> {
  const { release, destination } = filling;
  const target = releaseIn(storage, release.id);
  const fill = async (lease: Lease): Promise<Applied> => {
    const work = await workIn(target, lease.found, filling);
    if (work === null) return nothingApplied;
    const { id: destinationId, fileConcurrency } = destination;
    const options = {
      concurrency: fileConcurrency,
      onBytes: (count: number) => onProgress?.({ type: 'bytes', destinationId, count }),
      onOutput: (path: string) => onProgress?.({ type: 'output', destinationId, path }),
      duplicate: async (output: PlannedOutput, to: Key) =>
        duplicated(whileHeld(storage, lease), filling, output, to),
    };
    return applyUnderLease(context, target, lease, work, options, unlikeCurrent(release, work));
  };
  return decidingUnderLease(context, target, fill);
}

/**
 * Returns the work without the files that exist in the current release. Only the remaining files need their
 * names and the free space checked: the others have valid names and take no space.
 */
export function unlikeCurrent(
  { same }: Pick<PlannedRelease, 'same'>,
  { writes, removes }: Pick<Work, 'writes' | 'removes'>,
): Pick<Work, 'writes' | 'removes'> {
  return { writes: writes.filter(({ path }) => !same.has(path)), removes };
}

async function duplicated(
  storage: Storage,
  { release, base }: Filling,
  { path }: PlannedOutput,
  to: Key,
): Promise<boolean> {
  const target = releaseKey(release.id);
  if (base === null || base === target || !release.same.has(path)) return false;
  return (await storage.duplicate?.(joinKey(base, path), joinKey(target, to))) != null;
}

/** Returns the remaining work in a release's directory, or null if the release is complete. */
async function workIn(
  target: Storage,
  { state }: StoredState,
  { release: { content }, plan: { owner, bundle }, destinationPath }: Filling,
): Promise<Work | null> {
  const work = { owner, bundle, clears: false, untouched: [] };
  if (state.kind === 'absent') {
    await refuseContent(target, destinationPath);
    return { ...work, action: 'publish_new', writes: [...content], kept: [], removes: [] };
  }
  const { outputs, pending } = requireCatalog(state);
  const records = byPath(outputs);
  const announced = announcedPaths(pending);
  const reusable = content.filter(
    (output) => !announced.has(output.path) && isRecordedAs(records.get(output.path), output),
  );
  const damaged = await damagedAmong(target, reusable, target.localFiles === undefined);
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
 * Refuses files without a catalog. They are foreign, because an attempt writes its intent before anything
 * else.
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
