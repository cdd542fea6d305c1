import { compareCodeUnits } from '../../paths.ts';

/** A bundle as the index of a root shows it: what its catalog says, and nothing else. */
export interface ListedBundle {
  /** The bundle path, relative to the destination root. */
  path: string;
  /** RFC 3339: the manifest's `created`; null where the catalog does not say. */
  created: string | null;
  /** RFC 3339: when any of it was last published. */
  published: string;
  outputs: number;
  bytes: number;
  /** What a reader opens first, relative to the destination root. */
  page: string;
  /** Its first page of a scene map, relative to the destination root; null if there is none. */
  sceneMap: string | null;
}

/** So many are listed: the newest. */
export const mostListed = 100;

/** Those that are listed of these, newest first. Pure. */
export function newestOf(bundles: readonly ListedBundle[]): ListedBundle[] {
  return [...bundles]
    .sort((a, b) => Date.parse(b.published) - Date.parse(a.published) || compareCodeUnits(a.path, b.path))
    .slice(0, mostListed);
}

/** Pure. */
export function isSameBundle(a: ListedBundle | null, b: ListedBundle | null): boolean {
  if (a === null || b === null) return a === b;
  return (Object.keys(a) as (keyof ListedBundle)[]).every((key) => a[key] === b[key]);
}
