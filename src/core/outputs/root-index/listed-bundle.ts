import { compareCodeUnits } from '../../lib/paths.ts';

/*
 * The entries of a root index.
 */

/** A bundle in a root index. All fields come from its catalog. */
export interface ListedBundle {
  /** The bundle path, relative to the destination root. */
  path: string;
  /** RFC 3339: the manifest's `created`; null if the catalog does not record it. */
  created: string | null;
  /** RFC 3339: the time of the latest publication. */
  published: string;
  outputs: number;
  bytes: number;
  /** The main page of the bundle, relative to the destination root. */
  page: string;
  /** The bundle's first scene map page, relative to the destination root; null if there is none. */
  sceneMap: string | null;
}

/** The maximum number of entries. */
export const maxListed = 100;

/** The newest bundles, newest first, up to `maxListed`. Pure. */
export function newestOf(bundles: readonly ListedBundle[]): ListedBundle[] {
  return [...bundles]
    .sort((a, b) => Date.parse(b.published) - Date.parse(a.published) || compareCodeUnits(a.path, b.path))
    .slice(0, maxListed);
}

/** Pure. */
export function isSameBundle(a: ListedBundle | null, b: ListedBundle | null): boolean {
  if (a === null || b === null) return a === b;
  return (Object.keys(a) as (keyof ListedBundle)[]).every((key) => a[key] === b[key]);
}
