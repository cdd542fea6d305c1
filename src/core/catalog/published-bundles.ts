import { sameOwner, type Owner } from '../storage/identity.ts';
import type { CatalogState, OutputRecord, PublishedBundle } from './catalog.ts';

/*
 * The latest bundle of each owner at a bundle path. Pure.
 */

/** The owner's latest bundle; null if it published nothing, or only with a version that did not record it. */
export function publishedBy(state: CatalogState, owner: Owner): PublishedBundle | null {
  if (state.kind !== 'valid') return null;
  return state.catalog.bundles.find((bundle) => sameOwner(bundle.owner, owner)) ?? null;
}

/**
 * Whether any recorded output of the owner was committed at or after `since` (RFC 3339). A publication that
 * changes anything updates the time of all its outputs.
 */
export function isCommittedSince(state: CatalogState, owner: Owner, since: string): boolean {
  return (
    state.kind === 'valid' &&
    state.catalog.outputs.some(
      (output) => sameOwner(output.owner, owner) && Date.parse(output.updatedAt) >= Date.parse(since),
    )
  );
}

/** The bundles with `published` as the latest one of its owner. */
export function withPublished(
  bundles: readonly PublishedBundle[],
  published: PublishedBundle,
): PublishedBundle[] {
  return [...bundles.filter(({ owner }) => !sameOwner(owner, published.owner)), published];
}

/** The bundles whose owners still have outputs. */
export function bundlesOf(
  bundles: readonly PublishedBundle[],
  outputs: readonly Pick<OutputRecord, 'owner'>[],
): PublishedBundle[] {
  return bundles.filter((bundle) => outputs.some(({ owner }) => sameOwner(owner, bundle.owner)));
}
