import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { adminPages, consolePages, loginPages, oddPages } from './console-pages.ts';
import { kitPages } from './kit-pages.ts';
import { publishedPages } from './published-pages.ts';
import { badDayPages, weatherPages } from './weather-pages.ts';

/** What a set of pages is served by lives as long as the test, or the script that makes pictures. */
export type Lifetime = Pick<Test, 'teardown'>;

/** Pages that one server shows. */
export interface PageSet {
  name: string;
  /** Starts the server; returns its base URL, which ends with `/`. */
  start: (t: Lifetime) => Promise<string>;
  /** What a visitor does before the first page, for instance to sign in. */
  enter?: (page: Page, base: string) => Promise<void>;
  pages: readonly ShownPage[];
}

export interface ShownPage {
  /** Name of the picture: `console-run` in `docs/images`. Not kept without `inDocs`. */
  name: string;
  /** Below the base URL. */
  path: string;
  /** The status that it is answered with; 200 where nothing is said. */
  status?: number;
  /** Another state of a page that there is already: it is looked at as a phone and a laptop show it. */
  isState?: true;
  /** The status with which something that it asks for later is refused. */
  refused?: number;
  /** Brings the page to the tested state: opens folded parts, waits for late content. */
  prepare?: (page: Page) => Promise<void>;
  /** Whether a picture of it belongs to the documentation. */
  inDocs?: true;
}

/** Every page that a person sees, by the file of tests that looks at it (`every-console-page.test.ts`). */
export const pagesOf = {
  published: [kitPages, publishedPages],
  weather: [weatherPages, badDayPages],
  console: [consolePages, adminPages, loginPages, oddPages],
} as const satisfies Record<string, readonly PageSet[]>;

/** All of them, for `scripts/page-pictures.ts`. */
export const pageSets: readonly PageSet[] = Object.values(pagesOf).flat();
