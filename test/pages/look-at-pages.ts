import { createRequire } from 'node:module';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { startChromium } from '../services/chromium.ts';
import type { PageSet, ShownPage } from './page-sets.ts';

/*
 * What holds for every page that a person sees, at the widths of a phone, a tablet, a laptop and a desk,
 * light and dark: axe finds nothing, nothing is wider than the window, nothing is written to the console, and
 * nothing is asked of another host.
 */

const axeFile = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const widths = [360, 768, 1280, 1920];
const schemes = ['light', 'dark'] as const;

let browser: Browser;

/** Looks at all of them, one after another; a file of tests does nothing else. */
export function lookAtPages(sets: readonly PageSet[]): void {
  t.setTimeout(1_200_000);
  t.before(async () => {
    browser = await startChromium();
  });
  t.teardown(() => browser.close());
  for (const set of sets)
    t.test(set.name, async (t) => {
      const base = await set.start(t);
      for (const shown of set.pages) await t.test(shown.name, (t) => look(t, set, base, shown));
    });
}

async function newContext(t: Test, options: Parameters<Browser['newContext']>[0]): Promise<BrowserContext> {
  const context = await browser.newContext(options);
  t.teardown(() => context.close());
  return context;
}

/** What a page wrote, threw, was refused or asked of somebody else, from now on. */
function complaintsOf(page: Page, { origin }: URL, { status = 200 }: ShownPage): string[] {
  const complaints: string[] = [];
  page.on('console', (message) => {
    // A browser also writes of the status of the page itself, which is as it should be.
    const isStatus = status >= 400 && message.text().includes(`status of ${status}`);
    if (['error', 'warning'].includes(message.type()) && !isStatus) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('request', (request) => {
    const { protocol, origin: asked } = new URL(request.url());
    if (protocol !== 'data:' && protocol !== 'blob:' && asked !== origin)
      complaints.push(`asks for ${request.url()}`);
  });
  return complaints;
}

async function look(t: Test, set: PageSet, base: string, shown: ShownPage): Promise<void> {
  for (const colorScheme of schemes) {
    // The policy holds for what is looked for in this context, and gives way to axe in the other.
    const context = await newContext(t, { colorScheme });
    const withAxe = await newContext(t, { colorScheme, bypassCSP: true });
    await set.enter?.(await context.newPage(), base);
    await set.enter?.(await withAxe.newPage(), base);
    for (const width of widths) {
      const where = `${shown.name} at ${width}, ${colorScheme}`;
      const page = await context.newPage();
      await page.setViewportSize({ width, height: 900 });
      const complaints = complaintsOf(page, new URL(base), shown);
      const response = await page.goto(`${base}${shown.path}`);
      t.equal(response?.status(), shown.status ?? 200, where);
      await shown.prepare?.(page);
      t.equal(await page.evaluate('document.documentElement.scrollWidth'), width, `${where}: no wider`);
      await page.close();
      t.same(complaints, [], `${where}: no complaint`);
      t.same(await violationsOf(withAxe, `${base}${shown.path}`, width, shown), [], `${where}: axe`);
    }
  }
}

async function violationsOf(
  context: BrowserContext,
  url: string,
  width: number,
  { prepare }: ShownPage,
): Promise<unknown> {
  const page = await context.newPage();
  await page.setViewportSize({ width, height: 900 });
  await page.goto(url);
  await prepare?.(page);
  await page.addScriptTag({ path: axeFile });
  const found = await page.evaluate(
    'axe.run().then(({violations}) => violations.map(({id, nodes}) => [id, nodes.map((node) => node.html)]))',
  );
  await page.close();
  return found;
}
