import { pathWithin } from '../../bundle-path.ts';
import type { CatalogState } from '../../catalog/catalog.ts';
import { surveyDestination } from '../../catalog/managed-paths.ts';
import { publishedBy } from '../../catalog/published-bundles.ts';
import type { DestinationConfig } from '../../config/config.ts';
import { newestOf, type ListedBundle } from '../../generate/root-index/listed-bundle.ts';
import { sameOwner, type Owner } from '../../identity.ts';
import { inParallel } from '../../parallel.ts';
import { bundlePathsAmong, publishedState } from '../../releases/published-state.ts';
import { parseBundlePath } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { within } from '../../storage/wrappers/within.ts';

/** Whose bundles are listed, and how readers find them. */
export interface Listed {
  owner: Owner;
  releases: DestinationConfig['releases'];
}

/**
 * The bundle as its catalog describes it; null if this owner has nothing there, or if an attempt has not
 * finished, so that nobody knows which files are left. Pure.
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

/** The bundle that readers find at this path now. Throws as `publishedState` does. */
export async function bundleAt(
  root: Storage,
  destinationPath: string,
  listed: Listed,
): Promise<ListedBundle | null> {
  const storage = within(root, parseBundlePath(destinationPath));
  const { state } = await publishedState(storage, listed.releases === null ? 'in_place' : 'releases');
  return listedBundle(state, destinationPath, listed);
}

/** Catalogs that are read at once. */
const concurrentReads = 16;

/** The newest of all bundles but those: one recursive listing, and a read of each catalog. */
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
