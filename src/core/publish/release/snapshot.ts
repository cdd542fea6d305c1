import { describeBundlePath } from '../../lib/paths.ts';
import type { OutputRecord } from '../../catalog/catalog.ts';
import { readState, type StoredState } from '../../catalog/store.ts';
import { WaybillError } from '../../lib/errors.ts';
import type { Releases } from '../../releases/ledger.ts';
import { currentLinkKey, type ReleaseId } from '../../releases/release.ts';
import { readReleases } from '../../releases/store.ts';
import { releaseIn } from '../../releases/stored-releases.ts';
import type { Storage } from '../../storage/storage.ts';

/*
 * Reads the state of a bundle path before a publication as a release.
 */

/** The pointers, ledger and published state of a bundle path, as readers of one pointer see it. */
export interface Snapshot {
  releases: Releases;
  /** The channel to publish to; null for the current release. */
  channel: string | null;
  /** The release that the pointer of the channel, or the current one, points at. */
  pointer: ReleaseId | null;
  /** The release that readers see: `pointer`, or the current release if the channel has none. */
  shown: ReleaseId | null;
  /** The state of `shown`, or the in-place state if there is no release. */
  stored: StoredState;
  /** Rooted at the files that `stored` records; null if it is absent. */
  base: Storage | null;
}

/** Whether the bundle path is published in place. A publication must adopt these files first. Pure. */
export function isInPlace({ shown, base }: Snapshot): boolean {
  return shown === null && base !== null;
}

/**
 * Reads the pointers, the ledger and one catalog of the bundle path that `storage` is rooted at. Throws
 * `unmanaged_content` if the pointer is foreign, and `state_conflict` if the in-place catalog cannot be
 * adopted or the ledger is malformed.
 */
export async function readSnapshot(
  storage: Storage,
  destinationPath: string,
  channel: string | null,
): Promise<Snapshot> {
  const releases = await readReleases(storage);
  const { current, foreignTarget } = releases;
  const pointer = channel === null ? current : (releases.channels.get(channel) ?? null);
  const shown = pointer ?? current;
  const found = { releases, channel, pointer };
  const where = describeBundlePath(destinationPath);
  if (foreignTarget !== null)
    throw foreignPointer(where, `leads to "${foreignTarget}", which is not a release`);
  if (shown !== null) {
    const base = releaseIn(storage, shown);
    return { ...found, shown, stored: await readState(base), base };
  }
  const stored = await readState(storage);
  const inTheWay = storage.facts.rename === 'none' ? undefined : await storage.stat(currentLinkKey);
  if (inTheWay !== undefined) throw blocked(where, stored);
  if (stored.state.kind === 'absent') return { ...found, shown, stored, base: null };
  if (stored.state.kind !== 'valid') throw unadoptable(where);
  return { ...found, shown, stored, base: storage };
}

function foreignPointer(where: string, what: string): WaybillError {
  return new WaybillError(
    'unmanaged_content',
    `${where}: "${currentLinkKey}" ${what}: waybill did not create it`,
    {
      hint: 'check it, because readers may follow it; then move it away and run again',
    },
  );
}

function blocked(where: string, { state }: StoredState): WaybillError {
  const isOutput = ({ path }: OutputRecord): boolean => `${path}/`.startsWith(`${currentLinkKey}/`);
  if (state.kind !== 'valid' || !state.catalog.outputs.some(isOutput))
    return foreignPointer(where, 'is not a symbolic link');
  return new WaybillError(
    'state_conflict',
    `${where} is published with \`layout: in_place\` and has an output at "${currentLinkKey}", where the pointer of the releases would be`,
    { hint: 'publish once in place without that output, or publish the releases at another path' },
  );
}

function unadoptable(where: string): WaybillError {
  return new WaybillError(
    'state_conflict',
    `${where} is published with \`layout: in_place\`, and its catalog cannot be read`,
    {
      hint: 'publish there once with `layout: in_place` to repair the catalog or see what is wrong with it',
    },
  );
}
