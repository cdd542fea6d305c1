import { type PublishedBundle, publishedBy } from '../../catalog/catalog.ts';
import { surveyDestination } from '../../catalog/managed-paths.ts';
import { sameOwner } from '../../storage/identity.ts';
import { bundlePathsAmong, publishedState } from '../../releases/published-state.ts';
import type { Layout } from '../../releases/release.ts';
import { parseBundlePath } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { within } from '../../storage/wrappers/within.ts';
import { unpublication } from '../unpublish/unpublication.ts';
import { isFromSource, isHeld, type PublishedFrom } from './orphan.ts';

export interface Orphan {
  /** Relative to the destination root. */
  destinationPath: string;
  layout: Layout;
  /** The bundle that was published there; null if the catalog does not record it. */
  bundle: PublishedBundle | null;
  /** Everything that unpublishing it would remove, sorted. */
  outputs: string[];
  /** The total size of the recorded outputs. */
  bytes: number;
  /** The generation of its catalog. */
  generation: number;
  updatedAt: string;
}

export interface FoundOrphans {
  /** Sorted by path. */
  orphans: Orphan[];
  /** The number of the owner's recorded outputs: in orphans (`goes`), and at the whole destination. */
  counts: { goes: number; total: number };
}

/**
 * Finds the bundle paths that `from` published and that the source no longer has. Takes one recursive
 * listing. With `counted`, also reads the catalogs of held paths to count their outputs. Skips invalid
 * catalogs and those of other owners. Throws the storage's error.
 */
export async function findOrphans(
  root: Storage,
  from: PublishedFrom,
  held: ReadonlySet<string>,
  { counted }: { counted: boolean },
): Promise<FoundOrphans> {
  const found: FoundOrphans = { orphans: [], counts: { goes: 0, total: 0 } };
  for (const destinationPath of bundlePathsAmong((await surveyDestination(root)).paths)) {
    const mayGo = !isHeld(held, destinationPath);
    if (!mayGo && !counted) continue;
    const storage = within(root, parseBundlePath(destinationPath));
    const { state, release } = await publishedState(storage, 'in_place');
    if (state.kind !== 'valid') continue;
    const own = state.catalog.outputs.filter(({ owner }) => sameOwner(owner, from.owner));
    found.counts.total += own.length;
    if (!mayGo || !isFromSource(state.catalog, from, destinationPath)) continue;
    found.counts.goes += own.length;
    found.orphans.push({
      destinationPath,
      layout: release === null ? 'in_place' : 'releases',
      bundle: publishedBy(state, from.owner),
      outputs: [...unpublication(state.catalog, from.owner, destinationPath).removes],
      bytes: own.reduce((sum, { size }) => sum + size, 0),
      generation: state.catalog.generation,
      updatedAt: state.catalog.updatedAt,
    });
  }
  return found;
}
