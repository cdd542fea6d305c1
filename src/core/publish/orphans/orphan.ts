import type { Discovery } from '../../bundle/discover.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import { sameOwner, type Owner, type SourceIdentity } from '../../storage/identity.ts';

/*
 * Decides which published bundles a source no longer has. Pure.
 */

/** The parts of a complete source listing that may be or may hide a bundle. */
export type SourceListing = Pick<Discovery, 'warnings'> & {
  candidates: readonly { path: string }[];
  invalid: readonly { path: string }[];
};

/** Selects the bundles that an owner published from a source. */
export interface PublishedFrom {
  owner: Owner;
  source: Pick<SourceIdentity, 'backend' | 'id'>;
}

/**
 * The paths that the source may still have: every bundle, valid or not, and everything that discovery
 * skipped, such as links and dot directories. Discovery does not look below these paths, so bundles there may
 * exist, too.
 */
export function heldPaths({ candidates, invalid, warnings }: SourceListing): Set<string> {
  return new Set([
    ...[...candidates, ...invalid].map(({ path }) => path),
    ...warnings.flatMap(({ file }) => file ?? []),
  ]);
}

/** Whether the path is one of these or below one. */
export function isHeld(held: ReadonlySet<string>, path: string): boolean {
  if (held.has('.')) return true;
  for (let at = path; at !== ''; at = at.slice(0, Math.max(at.lastIndexOf('/'), 0)))
    if (held.has(at)) return true;
  return false;
}

/**
 * Whether the owner has outputs at the bundle path, and all of them come from the bundle with the same path
 * in this source. Outputs announced by an interrupted attempt of the owner count, too.
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
