/** What all pages of one daemon have in common. */
export interface Site {
  /** Below which everything is; ends with `/`. */
  basePath: string;
  version: string;
  /** In the order in which the head of every page shows them. */
  nav: readonly NavEntry[];
}

/** A part of the site that the head of every page and the landing page lead to. */
export interface NavEntry {
  /** By which a page says that it belongs to it. */
  id: string;
  label: string;
  /** Below the base path, without a slash at its beginning: `console`. */
  path: string;
  /** A sentence for the landing page. */
  about: string;
}
