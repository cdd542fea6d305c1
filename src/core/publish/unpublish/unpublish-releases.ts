import { type Catalog, publishedBy } from '../../catalog/catalog.ts';
import { readState, requireCatalog, type StoredState } from '../../catalog/catalog-store.ts';
import { destinationBusy } from '../../catalog/lease/lease.ts';
import type { CoreContext } from '../../context.ts';
import { describeBundlePath } from '../../lib/paths.ts';
import { type Releases, withNoCurrent } from '../../releases/ledger.ts';
import type { ReleaseId } from '../../releases/release.ts';
import { changeReleases, forgetReleases, readReleases } from '../../releases/releases-store.ts';
import { releaseIds, releaseStorage } from '../../releases/stored-releases.ts';
import { type Owner, sameOwner } from '../../storage/identity.ts';
import type { Storage } from '../../storage/storage.ts';
import { refuseRemovals } from '../decision/refusals.ts';
import { removeReleases } from './retire-releases.ts';
import {
  notOrphanError,
  notOwnedError,
  unpublication,
  type UnpublishReport,
  type UnpublishRequest,
} from './unpublication.ts';

/**
 * Unpublishes a bundle path with the releases layout: first the pointers, then every release, and finally the
 * ledger. Returns null if there are no releases. If the process is killed, the work is finished the next time
 * the path is unpublished. If something is published first, that works as if it were the first publication.
 * `storage` is rooted at the bundle path.
 *
 * Throws `not_owned` if another owner has a release there, `state_conflict` if a catalog is invalid,
 * `destination_busy` if the orphan is no longer one or another publisher was faster, `too_many_removals`, and
 * the same errors as `apply`.
 */
export async function unpublishReleases(
  context: CoreContext,
  storage: Storage,
  request: UnpublishRequest,
): Promise<UnpublishReport | null> {
  const releases = await readReleases(storage);
  const ids = await releaseIds(storage);
  const { history, channels } = releases.ledger;
  const isEmpty = ids.length + history.length + channels.length === 0;
  if (isEmpty && releases.current === null) return null;
  const report = await decideOn(storage, releases, ids, request);
  if (request.dryRun) return report;
  const { current } = releases;
  await changeReleases(context, storage, async (found) => {
    if (found.current !== current) throw destinationBusy(storage, null);
    const names = found.ledger.channels.map(({ name }) => name);
    if (current === null && names.length === 0) return { result: null, next: null };
    const ledger = withNoCurrent(found, context.clock.now().toISOString());
    const pointers = new Map(names.map((name) => [name, null]));
    return { result: null, next: { ledger, current: null, channels: pointers } };
  });
  await removeReleases(context, storage, ids, request);
  await forgetReleases(context, storage);
  return report;
}

/**
 * Decides what to remove. Refuses if any of the releases has another owner: a bundle path with releases
 * should have just one.
 */
async function decideOn(
  storage: Storage,
  { current, ledger }: Releases,
  ids: readonly ReleaseId[],
  { owner, destinationPath, maxRemoved, orphan }: UnpublishRequest,
): Promise<UnpublishReport> {
  const where = describeBundlePath(destinationPath);
  let shown: StoredState = { state: { kind: 'absent' }, raw: null };
  const removed: ReleaseId[] = [];
  for (const id of ids) {
    const stored = await readState(releaseStorage(storage, id));
    if (stored.state.kind === 'absent') continue;
    const catalog = requireCatalog(stored.state);
    const other = ownersIn(catalog).find((one) => !sameOwner(one, owner));
    if (other !== undefined) throw notOwnedError(`${where}: release ${id}`, other);
    if (id === current) shown = stored;
    removed.push(id);
  }
  if (orphan !== undefined && (shown.state.kind !== 'valid' || !orphan.isStill(shown.state.catalog)))
    throw notOrphanError(destinationPath);
  const outputs = shown.state.kind === 'valid' ? shown.state.catalog.outputs : [];
  // Once a removal has started, it has passed this check before.
  if (ledger.removing.length === 0)
    refuseRemovals(maxRemoved, { removed: outputs.length, total: outputs.length, where });
  if (shown.state.kind === 'valid')
    orphan?.onDecided?.({
      work: unpublication(shown.state.catalog, owner, destinationPath),
      stored: shown,
    });
  return {
    destinationPath,
    bundle: publishedBy(shown.state, owner),
    outputs: outputs.map(({ path }) => path),
    bytes: outputs.reduce((sum, { size }) => sum + size, 0),
    staying: [],
    releases: removed,
  };
}

function ownersIn({ outputs, pending }: Catalog): Owner[] {
  return [...outputs, ...(pending?.outputs ?? [])].map((record) => record.owner);
}
