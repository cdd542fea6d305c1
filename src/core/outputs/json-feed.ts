import { digestOf, hexOf } from '../lib/digest.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import { formatSize } from '../lib/settings/sizes-and-durations.ts';

/**
 * Returns a link to a path below the root. If we do not know `baseUrl`, the link is relative. That works
 * because the feeds are at the root.
 */
export function linkTo(path: string, baseUrl: string | null): string {
  // Without `./`, a path with a colon in it would look like a URL with a scheme.
  return (baseUrl ?? './') + path.split('/').map(encodeURIComponent).join('/');
}

/*
 * The entries of a root index.
 */

/** A bundle in a root index. Everything here comes from the bundle's catalog. */
export interface ListedBundle {
  /** The path of the bundle, relative to the destination root. */
  path: string;
  /** The time in the manifest (RFC 3339); null if the catalog does not have it. */
  created: string | null;
  /** The time when it was last published (RFC 3339). */
  published: string;
  outputs: number;
  bytes: number;
  /** The main page of the bundle, relative to the destination root. */
  page: string;
  /** The page of the bundle's first scene map, relative to the destination root; null if there is none. */
  sceneMap: string | null;
}

/** How many entries there can be. */
export const maxListed = 100;

/** Returns the newest `maxListed` bundles, starting with the newest one. */
export function newestBundles(bundles: readonly ListedBundle[]): ListedBundle[] {
  return [...bundles]
    .sort((a, b) => Date.parse(b.published) - Date.parse(a.published) || compareCodeUnits(a.path, b.path))
    .slice(0, maxListed);
}

export function isSameBundle(a: ListedBundle | null, b: ListedBundle | null): boolean {
  if (a === null || b === null) return a === b;
  return (Object.keys(a) as (keyof ListedBundle)[]).every((key) => a[key] === b[key]);
}

/*
 * Writes a JSON Feed of the newest bundles, and reads it again for the next update.
 */

export interface RootListing {
  /** The id of the pipeline. */
  title: string;
  /**
   * Identifies the feed. It stays the same across updates, and is different for other owners and locations.
   */
  identity: readonly string[];
  /** Ends with `/`; null if unknown. */
  baseUrl: string | null;
  /** Newest first. */
  bundles: readonly ListedBundle[];
}

/** The key of our own data in each item. JSON Feed allows extensions like this. */
const ownMember = '_waybill';

export function jsonFeed({ title, identity, baseUrl, bundles }: RootListing): string {
  const feed = {
    version: 'https://jsonfeed.org/version/1.1',
    title,
    home_page_url: linkTo('index.html', baseUrl),
    feed_url: linkTo('feed.json', baseUrl),
    items: bundles.map((bundle) => ({
      id: feedId([...identity, bundle.path]),
      url: linkTo(bundle.page, baseUrl),
      title: bundle.path,
      content_text: feedSummary(bundle),
      date_modified: bundle.published,
      date_published: bundle.created ?? undefined,
      [ownMember]: bundle,
    })),
  };
  return `${JSON.stringify(feed, null, 2)}\n`;
}

/**
 * Returns the bundles in a feed from `jsonFeed`, or null if it looks different, for example because it is
 * from another version. The content is trusted, so the caller must first make sure that the bytes match the
 * catalog.
 */
export function bundlesInFeed(text: string): ListedBundle[] | null {
  try {
    const { items } = JSON.parse(text) as { items: Record<string, unknown>[] };
    const bundles = items.map((item) => item[ownMember] as ListedBundle);
    return bundles.every(isListedBundle) ? bundles : null;
  } catch {
    return null;
  }
}

function isListedBundle(value: unknown): value is ListedBundle {
  if (typeof value !== 'object' || value === null) return false;
  const { path, created, published, outputs, bytes, page, sceneMap } = value as Record<string, unknown>;
  return (
    [path, published, page].every((one) => typeof one === 'string') &&
    [created, sceneMap].every((one) => one === null || typeof one === 'string') &&
    [outputs, bytes].every((one) => typeof one === 'number')
  );
}

export function feedSummary(bundle: ListedBundle): string {
  return `${outputCountText(bundle)}, ${formatSize(bundle.bytes)}`;
}

export function outputCountText({ outputs }: ListedBundle): string {
  return `${outputs} ${outputs === 1 ? 'file' : 'files'}`;
}

/** Returns a version 8 UUID (RFC 9562). It is made from a digest of the parts, so it is always the same. */
export function feedId(parts: readonly string[]): string {
  const hex = hexOf(digestOf(JSON.stringify(parts)));
  const variant = ((parseInt(hex.slice(16, 17), 16) & 3) | 8).toString(16);
  return `urn:uuid:${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
