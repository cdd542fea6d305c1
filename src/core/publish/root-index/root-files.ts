import {
  type Catalog,
  type CatalogState,
  isRootIndexOutput,
  type OutputRecord,
  publishedBy,
  recordedPaths,
  rootIndexGenerator,
} from '../../catalog/catalog.ts';
import type { StoredState } from '../../catalog/catalog-store.ts';
import { surveyDestination } from '../../catalog/managed-paths.ts';
import type { DestinationConfig } from '../../config/config.ts';
import { digestOf } from '../../lib/digest.ts';
import { hasCode } from '../../lib/errors.ts';
import { inParallel } from '../../lib/parallel.ts';
import { pathWithin, type RelativePath } from '../../lib/paths.ts';
import { bundlesInFeed, linkTo, type ListedBundle, newestBundles } from '../../outputs/json-feed.ts';
import { bundlePathsAmong, publishedState } from '../../releases/describe.ts';
import { describeLocation } from '../../storage/backends.ts';
import { bytesBody, readAll } from '../../storage/body.ts';
import { type Owner, sameOwner } from '../../storage/identity.ts';
import { keyOf, parseBundlePath } from '../../storage/key.ts';
import type { Storage } from '../../storage/storage.ts';
import { subdirectory } from '../../storage/wrappers/subdirectory.ts';
import type { PlannedOutput } from '../plan.ts';

/*
 * Builds the entries of a root index from catalogs.
 */

/** The owner and layout of the bundles that the index lists. */
export interface ListedDestination {
  owner: Owner;
  releases: DestinationConfig['releases'];
}

/**
 * Returns the entry for a bundle, based on its catalog. Returns null if the owner has no outputs there, or if
 * they are unknown because of an unfinished attempt.
 */
export function listedBundle(
  state: CatalogState,
  destinationPath: string,
  { owner, releases }: ListedDestination,
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

/**
 * Returns the entry for the bundle that is published at this path right now. Throws the same errors as
 * `publishedState`.
 */
export async function bundleAt(
  root: Storage,
  destinationPath: string,
  listed: ListedDestination,
): Promise<ListedBundle | null> {
  const storage = subdirectory(root, parseBundlePath(destinationPath));
  const { state } = await publishedState(storage, listed.releases === null ? 'in_place' : 'releases');
  return listedBundle(state, destinationPath, listed);
}

const concurrentReads = 16;

/**
 * Returns the newest bundles, leaving out `without`. Lists the destination once, recursively, and reads every
 * catalog.
 */
export async function listBundles(
  root: Storage,
  listed: ListedDestination,
  without: ReadonlySet<string> = new Set(),
): Promise<ListedBundle[]> {
  const managed = bundlePathsAmong((await surveyDestination(root)).paths);
  const paths = managed.filter((path) => path !== '.' && !without.has(path));
  const found: ListedBundle[] = [];
  await inParallel(paths, concurrentReads, async (path) => {
    const bundle = await bundleAt(root, path, listed);
    if (bundle !== null) found.push(bundle);
  });
  return newestBundles(found);
}

/*
 * Plans the files of a root index.
 */

export interface RootIndex {
  owner: Owner;
  destination: Pick<
    DestinationConfig,
    'id' | 'location' | 'publicBaseUrl' | 'cacheControl' | 'releases' | 'fileConcurrency' | 'rootIndex'
  >;
}

export const rootFileNames = ['feed.json', 'feed.xml', 'index.html'] as const;

/** The file from which the next update reads the current entries. */
const listingName = 'feed.json';

/** Returns the files of an index with these bundles. The template engine is imported on the first call. */
export async function plannedFiles(
  { owner, destination }: RootIndex,
  bundles: readonly ListedBundle[],
): Promise<PlannedOutput[]> {
  const { rootIndexFiles, rootIndexVersion: version } = await import('../../outputs/root-index.ts');
  const { publicBaseUrl, cacheControl } = destination;
  const files = await rootIndexFiles({
    title: owner.pipelineId,
    identity: [owner.pipelineId, owner.destinationId, ...(publicBaseUrl === null ? [] : [publicBaseUrl])],
    baseUrl: publicBaseUrl,
    bundles,
  });
  return files.map(({ path, kind, contentType, inputs, text }) => {
    const body = bytesBody(text);
    return {
      path,
      kind,
      owner,
      body,
      size: body.size,
      digest: digestOf(text),
      generated: { contentType, cacheControl, generator: { name: rootIndexGenerator, version, inputs } },
      url: publicBaseUrl === null ? null : linkTo(path, publicBaseUrl),
      source: sourceOf(destination),
    };
  });
}

/**
 * Returns the destination itself as the source. With the pipeline's source, a run would mistake the index for
 * an orphan.
 */
function sourceOf({ location }: RootIndex['destination']): OutputRecord['source'] {
  return { backend: location.backend, id: describeLocation(location), path: '.' };
}

/** The current state of a destination's root. */
export interface RootSnapshot {
  stored: StoredState;
  /** The catalog of the root; null if there is none. */
  catalog: Catalog | null;
  /**
   * The bundles in the index. null if they are unknown: either there is no index yet, an attempt was
   * interrupted, or one of the index files is missing or has been changed.
   */
  listed: readonly ListedBundle[] | null;
  /** The reason why an index cannot be created here; null if there is none. */
  obstacle: string | null;
}

/**
 * Reads what is at a destination's root, without a lease. `storage` is rooted at the destination. Throws the
 * storage's error.
 */
export async function rootSnapshot(
  storage: Storage,
  stored: StoredState,
  index: RootIndex,
): Promise<RootSnapshot> {
  const { state } = stored;
  if (state.kind !== 'absent' && state.kind !== 'valid')
    return { stored, catalog: null, listed: null, obstacle: `the catalog there is ${state.kind}` };
  const catalog = state.kind === 'valid' ? state.catalog : null;
  const obstacle =
    (catalog === null ? null : claimIn(catalog, index)) ?? (await foreignFile(storage, stored));
  const listed = obstacle === null && catalog !== null ? await verifiedListing(storage, catalog) : null;
  return { stored, catalog, listed, obstacle };
}

function claimIn({ outputs, pending }: Catalog, { owner }: RootIndex): string | null {
  const names = new Set<string>(rootFileNames);
  for (const record of [...outputs, ...(pending?.outputs ?? [])]) {
    const isOwn = sameOwner(record.owner, owner);
    if (isOwn && !isRootIndexOutput(record)) return 'a bundle is published at the root itself';
    if (!isOwn && names.has(record.path)) {
      const { pipelineId, destinationId } = record.owner;
      return `"${record.path}" there belongs to ${pipelineId}/${destinationId}`;
    }
  }
  return null;
}

async function foreignFile(storage: Storage, { state }: StoredState): Promise<string | null> {
  const known = recordedPaths(state);
  for (const name of rootFileNames)
    if (!known.has(name) && (await storage.stat(keyOf(name as string as RelativePath))) !== undefined)
      return `there is an unrecorded file "${name}"`;
  return null;
}

/** Reads the list from the feed, provided that its digest is the recorded one. */
async function verifiedListing(
  storage: Storage,
  { outputs, pending }: Catalog,
): Promise<ListedBundle[] | null> {
  if (pending !== null) return null;
  const own = outputs.filter(isRootIndexOutput);
  if (own.length !== rootFileNames.length) return null;
  for (const { path, size } of own) if ((await storage.stat(keyOf(path)))?.size !== size) return null;
  const feed = own.find(({ path }) => path === listingName);
  if (feed === undefined) return null;
  try {
    const bytes = await readAll(storage, keyOf(feed.path), feed.size);
    return digestOf(bytes) === feed.digest ? bundlesInFeed(bytes.toString('utf8')) : null;
  } catch (error) {
    if (hasCode(error, 'storage_not_found')) return null;
    throw error;
  }
}
