/*
 * Takes screenshots of pages as WebP for `docs/images`, at the width of a phone and of a laptop. With `node
 * --import=tsx scripts/page-pictures.ts DIRECTORY [NAME…]`, takes screenshots of some or all pages as PNG,
 * for reviewing them at more widths and in light and dark mode.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { type PageSet, pageSets, type ShownPage } from '../test/pages/page-sets.ts';
import { startChromium } from '../test/services/chromium.ts';

const [directory = 'docs/images', ...names] = process.argv.slice(2);
const isForDocs = directory === 'docs/images';
const widths = isForDocs ? [360, 1280] : [360, 768, 1280, 1920];
const schemes = isForDocs ? (['light'] as const) : (['light', 'dark'] as const);
/** The maximum height of a screenshot. Beyond this, pages mostly repeat themselves. */
const maxHeight = 2600;
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
  for (const colorScheme of schemes) {
    const context = await browser.newContext({ colorScheme });
    await set.enter?.(await context.newPage(), base);
    for (const { name, path, prepare } of pages) {
      for (const width of widths) {
        const page = await context.newPage();
        await page.setViewportSize({ width, height: 900 });
        await page.goto(`${base}${path}`);
        await prepare?.(page);
        await growToPage(page, width);
        await keep(page, name, width, colorScheme);
        await page.close();
      }
    }
    await context.close();
  }
}

/**
 * Makes the window as tall as the page, up to a limit, because the browser only draws what is visible. Does
 * it twice, because drawing can change the height.
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

async function keep(page: Page, name: string, width: number, scheme: string): Promise<void> {
  if (!isForDocs) {
    await page.screenshot({ path: `${directory}/${name}-${width}-${scheme}.png`, fullPage: true });
    return;
  }
  const { height } = page.viewportSize() ?? { height: maxHeight };
  const png = await page.screenshot({
    fullPage: true,
    clip: { x: 0, y: 0, width, height: Math.min(height, maxHeight) },
  });
  writeFileSync(`${directory}/${name}-${width}.webp`, await asWebp(page, png));
}

/** Lets the browser convert the image, on an empty page without a content security policy. */
async function asWebp(page: Page, png: Buffer): Promise<Buffer> {
  const blank = await page.context().newPage();
  const made = await blank.evaluate(`(async () => {
    const image = new Image();
    image.src = 'data:image/png;base64,${png.toString('base64')}';
    await image.decode();
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [image.width, image.height];
    canvas.getContext('2d').drawImage(image, 0, 0);
    return canvas.toDataURL('image/webp', 0.8);
  })()`);
  await blank.close();
  return Buffer.from(String(made).split(',')[1] ?? '', 'base64');
}
