import { readState } from '../../catalog/store.ts';
import { WaybillError } from '../../errors.ts';
import { currentLinkKey } from '../../releases/release.ts';
import { readReleases } from '../../releases/store.ts';
import { releaseIn } from '../../releases/stored-releases.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Standing } from './plan-release.ts';

/**
 * What readers have at the bundle path that `storage` is rooted at: pointer, ledger and one catalog. Throws
 * `unmanaged_content` if the pointer is none of ours, `state_conflict` if the bundle path is published in
 * place or the ledger is broken, or the storage's own error.
 */
export async function lookAtReleases(storage: Storage, destinationPath: string): Promise<Standing> {
  const releases = await readReleases(storage);
  const { current, foreignTarget } = releases;
  const where = destinationPath === '.' ? 'the destination root' : `"${destinationPath}"`;
  if (foreignTarget !== null) throw foreignPointer(where, `leads to "${foreignTarget}", which is no release`);
  if (current !== null) return { releases, stored: await readState(releaseIn(storage, current)) };
  await refusePublishedInPlace(storage, where);
  const found = storage.facts.rename === 'none' ? undefined : await storage.stat(currentLinkKey);
  if (found !== undefined) throw foreignPointer(where, `is no symbolic link`);
  return { releases, stored: { state: { kind: 'absent' }, raw: null } };
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

async function refusePublishedInPlace(storage: Storage, where: string): Promise<void> {
  if ((await readState(storage)).state.kind === 'absent') return;
  throw new WaybillError('state_conflict', `${where} is published with \`layout: in_place\``, {
    hint: 'take it down first (`waybill unpublish`), or publish the releases to another place',
  });
}
