import { type Catalog, type OutputRecord, publishedBy } from '../../catalog/catalog.ts';
import { readState, requireCatalog } from '../../catalog/catalog-store.ts';
import { managedPaths } from '../../catalog/managed-paths.ts';
import type { DestinationConfig } from '../../config/config.ts';
import { hasCode, WaybillError, withDetails } from '../../lib/errors.ts';
import type { Instant } from '../../lib/instant.ts';
import { describeBundlePath, parseRelativePath } from '../../lib/paths.ts';
import { bundlePlace, openBundlePath, releaseNamed } from '../../releases/bundle-place.ts';
import { bundlePathsAmong, publishedState } from '../../releases/describe.ts';
import type { Layout } from '../../releases/release.ts';
import { releaseStorage } from '../../releases/stored-releases.ts';
import { type Owner, sameOwner } from '../../storage/identity.ts';
import type { Storage } from '../../storage/storage.ts';
import type { BundleIdentity } from '../plan.ts';

/*
 * Reads a destination's published content, going by its catalogs. Takes no lease and writes nothing.
 */

/** Selects the content to promote. */
export interface PromotedContent {
  /** The destination's name, for messages. */
  name: string;
  /** The destination's mapping; null to search all bundle paths because it is not known. */
  mapping: DestinationConfig['mapping'] | null;
  /** The layout to read if both exist after a migration. */
  layout: Layout;
  /** The bundle path to read, relative to the destination root; default: all of them. */
  path?: string | undefined;
  /** A release id or a channel; default: the current release. */
  release?: string | undefined;
}

export interface PublishedContent {
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** Rooted at the recorded files: the bundle path, or a release. */
  storage: Storage;
  catalog: Catalog;
}

/**
 * Returns what is published at a destination, sorted by bundle path. Paths without a catalog are skipped.
 * Throws `destination_busy` if a publication is running or was interrupted, `state_conflict` if a catalog is
 * invalid, `no_releases`, `release_not_found`, `bundle_path_needed`, or the storage's error.
 */
export async function readPublished(root: Storage, from: PromotedContent): Promise<PublishedContent[]> {
  if (from.release !== undefined) return [await readRelease(root, from, from.release)];
  const found: PublishedContent[] = [];
  for (const destinationPath of await pathsToRead(root, from)) {
    const { storage } = bundlePlace(root, destinationPath);
    const { state, release } = await publishedState(storage, from.layout);
    if (state.kind === 'absent') continue;
    const catalog = requireFinished(from, destinationPath, () => requireCatalog(state));
    const files = release === null ? storage : releaseStorage(storage, release);
    found.push({ destinationPath, storage: files, catalog });
  }
  return found;
}

async function readRelease(root: Storage, from: PromotedContent, name: string): Promise<PublishedContent> {
  const mapping = from.mapping ?? 'preserve_relative';
  const opened = openBundlePath(root, { id: from.name, mapping }, from.path);
  const { destinationPath, storage } = await opened.catch((error: unknown) => {
    throw hasCode(error, 'not_published') ? withoutReleases(from, error) : error;
  });
  const files = releaseStorage(storage, await releaseNamed({ destinationPath, storage }, name));
  const { state } = await readState(files);
  return {
    destinationPath,
    storage: files,
    catalog: requireFinished(from, destinationPath, () => requireCatalog(state)),
  };
}

function withoutReleases({ name }: PromotedContent, cause: unknown): WaybillError {
  return new WaybillError('no_releases', `${name} has no releases`, {
    hint: 'leave out --release to promote the content that is published there in place',
    cause,
  });
}

async function pathsToRead(root: Storage, { mapping, path }: PromotedContent): Promise<string[]> {
  if (path !== undefined) return [path];
  return mapping === 'fixed' ? ['.'] : bundlePathsAmong(await managedPaths(root));
}

/** Returns the catalog. Throws an error if an attempt might be changing the recorded files right now. */
function requireFinished({ name }: PromotedContent, path: string, read: () => Catalog): Catalog {
  const where = `${describeBundlePath(path)} of ${name}`;
  let catalog: Catalog;
  try {
    catalog = read();
  } catch (error) {
    if (!(error instanceof WaybillError)) throw error;
    throw withDetails(error, { message: `${where}: ${error.message}` });
  }
  if (catalog.pending === null) return catalog;
  throw new WaybillError(
    'destination_busy',
    `${where} is being published to, or a publication was interrupted there; nothing was promoted`,
    { hint: `wait until it ends, or publish to ${name} again to finish it; then promote again` },
  );
}

/*
 * Finds owners and their bundles in catalogs.
 */

/** Returns the owner's outputs that were copied from its bundle rather than generated. */
export function bundleRecords({ outputs }: Catalog, owner: Owner): OutputRecord[] {
  return outputs.filter((record) => sameOwner(record.owner, owner) && record.generated.generator === null);
}

export function ownersOf(published: readonly PublishedContent[]): Owner[] {
  const owners: Owner[] = [];
  for (const { catalog } of published)
    for (const { owner, generated } of catalog.outputs)
      if (generated.generator === null && !owners.some((known) => sameOwner(known, owner)))
        owners.push(owner);
  return owners;
}

/**
 * Returns the bundle that the owner last published. Older catalogs do not record it; for those, it is put
 * together from the first record's source and the time of the last commit. Throws `state_conflict` if the
 * bundle's path is unsafe.
 */
export function recordedBundle(
  { destinationPath, catalog }: PublishedContent,
  owner: Owner,
  first: OutputRecord,
): BundleIdentity {
  const recorded = publishedBy({ kind: 'valid', catalog }, owner);
  const source = recorded?.source ?? first.source;
  const verdict = parseRelativePath(source.path);
  if (source.path !== '.' && !verdict.ok)
    throw new WaybillError(
      'state_conflict',
      `the catalog of ${describeBundlePath(destinationPath)} is invalid: the bundle ${JSON.stringify(source.path)} ${verdict.reason}`,
      { hint: 'restore it from a backup, or publish there once with --force' },
    );
  const created = recorded?.created ?? (new Date(catalog.updatedAt).toISOString() as Instant);
  return { source, created };
}
