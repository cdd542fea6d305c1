import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { adminPages, consolePages, loginPages, oddPages } from './console-pages.ts';
import { kitPages } from './kit-pages.ts';
import { publishedPages } from './published-pages.ts';
import { badDayPages, weatherPages } from './weather-pages.ts';

/** The server of a set of pages lives as long as the test, or the script that takes screenshots. */
export type Lifetime = Pick<Test, 'teardown'>;

/** Pages of one server. */
export interface PageSet {
  name: string;
  /** Starts the server. Returns its base URL, which ends with `/`. */
  start: (t: Lifetime) => Promise<string>;
  /** Actions before the first page, for instance a login. */
  enter?: (page: Page, base: string) => Promise<void>;
  pages: readonly ShownPage[];
}

export interface ShownPage {
  /** The name of the screenshot: `console-run` in `docs/images`. Not stored without `inDocs`. */
  name: string;
  /** Below the base URL. */
  path: string;
  /** The status of the page. Default: 200. */
  status?: number;
  /**
   * Another state of a page that is already in the set. It is checked at the widths of a phone and a laptop.
   */
  isState?: true;
  /** The status with which a later request of the page is rejected. */
  refused?: number;
  /** Brings the page to the tested state: opens collapsed parts, waits for late content. */
  prepare?: (page: Page) => Promise<void>;
  /** Whether the documentation has a screenshot of it. */
  inDocs?: true;
}

/** Every page, by the test file that checks it (`every-console-page.test.ts`). */
export const pagesOf = {
  published: [kitPages, publishedPages],
  weather: [weatherPages, badDayPages],
  console: [consolePages, adminPages, loginPages, oddPages],
} as const satisfies Record<string, readonly PageSet[]>;

/** All of them, for `scripts/page-pictures.ts`. */
export const pageSets: readonly PageSet[] = Object.values(pagesOf).flat();
