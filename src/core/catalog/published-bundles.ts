import { sameOwner, type Owner } from '../identity.ts';
import type { CatalogState, OutputRecord, PublishedBundle } from './catalog.ts';

/*
 * Which bundle each owner published last at a bundle path. All of it is pure.
 */

/** What the owner published last; null if it has published nothing, or a waybill that did not record it. */
export function publishedBy(state: CatalogState, owner: Owner): PublishedBundle | null {
  if (state.kind !== 'valid') return null;
  return state.catalog.bundles.find((bundle) => sameOwner(bundle.owner, owner)) ?? null;
}

/**
 * Whether the owner committed anything since `since` (RFC 3339) that is recorded still: every publication
 * that changes something renews the time of all its outputs.
 */
export function isCommittedSince(state: CatalogState, owner: Owner, since: string): boolean {
  return (
    state.kind === 'valid' &&
    state.catalog.outputs.some(
      (output) => sameOwner(output.owner, owner) && Date.parse(output.updatedAt) >= Date.parse(since),
    )
  );
}

/** The bundles once `published` is the last one of its owner. */
export function withPublished(
  bundles: readonly PublishedBundle[],
  published: PublishedBundle,
): PublishedBundle[] {
  return [...bundles.filter(({ owner }) => !sameOwner(owner, published.owner)), published];
}

/** The bundles of the owners that these outputs are of: one without outputs has nothing published. */
export function bundlesOf(
  bundles: readonly PublishedBundle[],
  outputs: readonly Pick<OutputRecord, 'owner'>[],
): PublishedBundle[] {
  return bundles.filter((bundle) => outputs.some(({ owner }) => sameOwner(owner, bundle.owner)));
}
