import { type CatalogState, publishedBy } from '../../catalog/catalog.ts';
import { surveyDestination } from '../../catalog/managed-paths.ts';
import type { DestinationConfig } from '../../config/config.ts';
import { inParallel } from '../../lib/parallel.ts';
import { pathWithin } from '../../lib/paths.ts';
import { type ListedBundle, newestOf } from '../../outputs/json-feed.ts';
import { bundlePathsAmong, publishedState } from '../../releases/describe.ts';
import { type Owner, sameOwner } from '../../storage/identity.ts';
import { parseBundlePath } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { within } from '../../storage/wrappers/within.ts';

/*
 * Derives the entries of a root index from catalogs.
 */

/** The owner of the listed bundles, and their layout. */
export interface Listed {
  owner: Owner;
  releases: DestinationConfig['releases'];
}

/**
 * The entry of a bundle according to its catalog; null if the owner has no outputs there, or if an attempt
 * did not finish and the files are unknown. Pure.
 */
export function listedBundle(
  state: CatalogState,
  destinationPath: string,
  { owner, releases }: Listed,
): ListedBundle | null {
  if (state.kind !== 'valid' || state.catalog.pending !== null) return null;
  const own = state.catalog.outputs.filter((output) => sameOwner(output.owner, owner));
  const [first] = own;
  if (first === undefined) return null;
  const readAt = releases?.currentInUrl === true ? pathWithin(destinationPath, 'current') : destinationPath;
  const sceneMap = own.find(({ kind }) => kind === 'scene_map_page');
  const home = own.find(({ path }) => path === 'index.html') ?? sceneMap ?? first;
  return {
    path: destinationPath,
    created: publishedBy(state, owner)?.created ?? null,
    published: own.reduce((last, { updatedAt }) => (updatedAt > last ? updatedAt : last), first.updatedAt),
    outputs: own.length,
    bytes: own.reduce((sum, { size }) => sum + size, 0),
    page: pathWithin(readAt, home.path),
    sceneMap: sceneMap === undefined ? null : pathWithin(readAt, sceneMap.path),
  };
}

/** The entry of the bundle currently published at this path. Throws like `publishedState`. */
export async function bundleAt(
  root: Storage,
  destinationPath: string,
  listed: Listed,
): Promise<ListedBundle | null> {
  const storage = within(root, parseBundlePath(destinationPath));
  const { state } = await publishedState(storage, listed.releases === null ? 'in_place' : 'releases');
  return listedBundle(state, destinationPath, listed);
}

const concurrentReads = 16;

/** The newest bundles except `without`. Takes one recursive listing and reads each catalog. */
export async function everyBundle(
  root: Storage,
  listed: Listed,
  without: ReadonlySet<string> = new Set(),
): Promise<ListedBundle[]> {
  const managed = bundlePathsAmong((await surveyDestination(root)).paths);
  const paths = managed.filter((path) => path !== '.' && !without.has(path));
  const found: ListedBundle[] = [];
  await inParallel(paths, concurrentReads, async (path) => {
    const bundle = await bundleAt(root, path, listed);
    if (bundle !== null) found.push(bundle);
  });
  return newestOf(found);
}
