import { readFileSync } from 'node:fs';
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

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const widths = [360, 768, 1280, 1920];

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
      const context = await browser.newContext();
      t.teardown(() => context.close());
      await set.enter?.(await context.newPage(), base);
      for (const shown of set.pages) await t.test(shown.name, (t) => look(t, context, base, shown));
    });
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

/**
 * Loads it once at each width, and turns the lights off on the page that is there. Only axe comes after the
 * last thing that a complaint could be about: it is put in by the debugger, which no policy keeps out.
 */
async function look(t: Test, context: BrowserContext, base: string, shown: ShownPage): Promise<void> {
  for (const width of widths) {
    const where = `${shown.name} at ${width}`;
    const page = await context.newPage();
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width, height: 900 });
    const complaints = complaintsOf(page, new URL(base), shown);
    const response = await page.goto(`${base}${shown.path}`);
    t.equal(response?.status(), shown.status ?? 200, where);
    await shown.prepare?.(page);
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), width, `${where}, light: no wider`);
    await page.emulateMedia({ colorScheme: 'dark' });
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), width, `${where}, dark: no wider`);
    t.same(complaints, [], `${where}: no complaint`);
    await page.evaluate(`${axe};undefined`);
    t.same(await violationsOf(page), [], `${where}, dark: axe`);
    await page.emulateMedia({ colorScheme: 'light' });
    t.same(await violationsOf(page), [], `${where}, light: axe`);
    await page.close();
  }
}

async function violationsOf(page: Page): Promise<unknown> {
  return page.evaluate(
    `axe.run().then(({violations}) => violations.map(({id, nodes}) => [id, nodes.map((node) => node.html)]))`,
  );
}
