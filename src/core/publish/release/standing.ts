import { describeBundlePath } from '../../bundle-path.ts';
import type { OutputRecord } from '../../catalog/catalog.ts';
import { readState, type StoredState } from '../../catalog/store.ts';
import { WaybillError } from '../../errors.ts';
import type { Releases } from '../../releases/ledger.ts';
import { currentLinkKey, type ReleaseId } from '../../releases/release.ts';
import { readReleases } from '../../releases/store.ts';
import { releaseIn } from '../../releases/stored-releases.ts';
import type { Storage } from '../../storage/storage.ts';

/** What readers have at a bundle path, and what is remembered of it. */
export interface Standing {
  releases: Releases;
  /** The channel whose readers are meant; null for those who follow the current release. */
  channel: string | null;
  /** What the pointer names that they follow. */
  pointer: ReleaseId | null;
  /**
   * What readers have; those of a channel that leads nowhere yet have what others have. Null if there is no
   * release.
   */
  shown: ReleaseId | null;
  /** The catalog of that release, or that in place if there is none; absent if there is neither. */
  stored: StoredState;
  /** Rooted at what it records; null if it is absent. */
  base: Storage | null;
}

/** Whether the bundle path is published in place, which a publication has to adopt first. Pure. */
export function isInPlace({ shown, base }: Standing): boolean {
  return shown === null && base !== null;
}

/**
 * What readers have at the bundle path that `storage` is rooted at: pointers, ledger and one catalog. With a
 * channel, those who follow that. Throws
 * `unmanaged_content` if the pointer is none of ours, `state_conflict` if the bundle path is published in
 * place with a catalog that cannot be adopted or the ledger is broken, or the storage's own error.
 */
export async function lookAtReleases(
  storage: Storage,
  destinationPath: string,
  channel: string | null,
): Promise<Standing> {
  const releases = await readReleases(storage);
  const { current, foreignTarget } = releases;
  const pointer = channel === null ? current : (releases.channels.get(channel) ?? null);
  const shown = pointer ?? current;
  const found = { releases, channel, pointer };
  const where = describeBundlePath(destinationPath);
  if (foreignTarget !== null) throw foreignPointer(where, `leads to "${foreignTarget}", which is no release`);
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
    `${where}: "${currentLinkKey}" ${what}: waybill did not make it`,
    {
      hint: 'readers may be given what it leads to: look at it, move it away, and run again',
    },
  );
}

function blocked(where: string, { state }: StoredState): WaybillError {
  const isOutput = ({ path }: OutputRecord): boolean => `${path}/`.startsWith(`${currentLinkKey}/`);
  if (state.kind !== 'valid' || !state.catalog.outputs.some(isOutput))
    return foreignPointer(where, 'is no symbolic link');
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
      hint: 'publish there once with `layout: in_place`, which repairs the catalog or says what is wrong with it',
    },
  );
}
