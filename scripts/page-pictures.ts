/*
 * Makes the pictures of pages in `docs/images`, at the width of a phone and of a laptop, light and dark.
 * `node --import=tsx scripts/page-pictures.ts [DIRECTORY] [NAME…]` makes those of all pages, or of these,
 * for looking at.
 */
import { mkdirSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { pageSets, type PageSet, type ShownPage } from '../test/pages/page-sets.ts';
import { startChromium } from '../test/services/chromium.ts';

const [directory = 'docs/images', ...names] = process.argv.slice(2);
const isForDocs = directory === 'docs/images';
const widths = isForDocs ? [360, 1280] : [360, 768, 1280, 1920];
mkdirSync(directory, { recursive: true });

const ends: (() => unknown)[] = [];
const browser = await startChromium();
ends.push(() => browser.close());
try {
  for (const set of pageSets) {
    const chosen = set.pages.filter(({ name, inDocs }) =>
      names.length > 0 ? names.includes(name) : inDocs === true || !isForDocs,
    );
    if (chosen.length > 0) await pictures(browser, set, chosen);
  }
} finally {
  for (const end of ends.reverse()) await end();
}

async function pictures(browser: Browser, set: PageSet, pages: readonly ShownPage[]): Promise<void> {
  const base = await set.start({ teardown: (end) => void ends.push(end as () => unknown) });
  for (const colorScheme of ['light', 'dark'] as const) {
    const context = await browser.newContext({ colorScheme });
    await set.enter?.(await context.newPage(), base);
    for (const { name, path, prepare } of pages) {
      for (const width of widths) {
        const page = await context.newPage();
        await page.setViewportSize({ width, height: 900 });
        await page.goto(`${base}${path}`);
        await prepare?.(page);
        await growToPage(page, width);
        await page.screenshot({ path: `${directory}/${name}-${width}-${colorScheme}.png`, fullPage: true });
        await page.close();
      }
    }
    await context.close();
  }
}

/**
 * Makes the window as tall as the page, within reason, for what is outside of it is not painted; then once
 * more, as what is painted has its true height.
 */
async function growToPage(page: Page, width: number): Promise<void> {
  for (let pass = 0; pass < 2; pass++) {
    const height = await page.evaluate<number>('document.documentElement.scrollHeight');
    await page.setViewportSize({ width, height: Math.min(height, 6000) });
    await page.evaluate(
      'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))',
    );
  }
}
