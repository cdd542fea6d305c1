import type { Discovery } from '../../bundle/discover.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import { sameOwner, type Owner, type SourceIdentity } from '../../identity.ts';

/*
 * Which published bundles a source no longer holds. All of it is pure.
 */

/** Of a whole listing of a source: everything that may hide or be a bundle. */
export type SourceListing = Pick<Discovery, 'warnings'> & {
  candidates: readonly { path: string }[];
  invalid: readonly { path: string }[];
};

/** Whose orphans: what this owner has published from this source. */
export interface PublishedFrom {
  owner: Owner;
  source: Pick<SourceIdentity, 'backend' | 'id'>;
}

/**
 * The bundle paths that the source answers for: each bundle, valid or not, and what discovery passed over (a
 * link, a directory with a dot). Discovery looks below none of them, so whatever lies there is as little
 * known to be gone.
 */
export function heldPaths({ candidates, invalid, warnings }: SourceListing): Set<string> {
  return new Set([
    ...[...candidates, ...invalid].map(({ path }) => path),
    ...warnings.flatMap(({ file }) => file ?? []),
  ]);
}

/** Whether the path is one of these or lies below one. */
export function isHeld(held: ReadonlySet<string>, path: string): boolean {
  if (held.has('.')) return true;
  for (let at = path; at !== ''; at = at.slice(0, Math.max(at.lastIndexOf('/'), 0)))
    if (held.has(at)) return true;
  return false;
}

/**
 * Whether something of this owner is published at the bundle path, and all of it from the bundle of this path
 * in this source; what an interrupted attempt of the owner announced counts. What came from elsewhere says
 * nothing about this source.
 */
export function isFromSource(
  { outputs, pending }: Catalog,
  { owner, source }: PublishedFrom,
  destinationPath: string,
): boolean {
  const own = [...outputs, ...(pending?.outputs ?? [])].filter((record) => sameOwner(record.owner, owner));
  return (
    own.length > 0 &&
    own.every(
      (record) =>
        record.source.backend === source.backend &&
        record.source.id === source.id &&
        record.source.path === destinationPath,
    )
  );
}
