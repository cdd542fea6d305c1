import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { startChromium } from '../services/chromium.ts';
import { isExhaustive } from '../support/sampling.ts';
import type { PageSet, ShownPage } from './page-sets.ts';

/*
 * Checks for every page at the widths of a phone, a tablet, a laptop and a desktop, in light and dark, in
 * either order: axe reports nothing, nothing is wider than the window, the console is empty, no other host
 * gets a request, and no color of the other scheme remains.
 */

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

type Scheme = 'light' | 'dark';
/** Each page is loaded once at each width in this scheme, and then switched to the other one. */
const loads: readonly [width: number, scheme: Scheme][] = [
  [360, 'light'],
  [768, 'dark'],
  [1280, 'dark'],
  [1920, 'light'],
];
/** At this width and above, the layout is the same, so that the same elements have colors. */
const laptop = 1280;
/** The name of a page that is displayed again in another state. */
const fewerLoads = loads.filter(([width]) => width === 360 || width === 1280);
/** The maximum bright share of a dark window, in percent. Lines and plots are bright. */
const maxBright = 8;
/** Hides text, because its share depends on the fonts of the machine. A page's policy cannot block this. */
const withoutText = `{
  const sheet = new CSSStyleSheet();
  sheet.replaceSync('* { color: transparent !important; }');
  document.adoptedStyleSheets = [sheet];
}`;

let browser: Browser;

/** Checks all pages, one after another. The test file does nothing else. */
export function lookAtPages(sets: readonly PageSet[]): void {
  t.setTimeout(0);
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

/** Console output, errors, rejections and foreign requests of a page from now on. */
function complaintsOf(page: Page, { origin }: URL, { status, refused }: ShownPage): string[] {
  const complaints: string[] = [];
  page.on('console', (message) => {
    // A browser also logs the page's own status or an expected rejection.
    const isStatus = [status, refused].some((one) => message.text().includes(`status of ${one ?? 200}`));
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

/** Only axe runs after the last possible complaint, and a debugger ignores the policy of the page. */
async function look(t: Test, context: BrowserContext, base: string, shown: ShownPage): Promise<void> {
  const seen = new Map<Scheme, Set<string>>();
  const wanted = shown.isState === true ? fewerLoads : loads;
  for (const [width, first] of wanted) {
    const where = `${shown.name} at ${width}, loaded ${first}`;
    const other = first === 'light' ? 'dark' : 'light';
    const page = await context.newPage();
    await page.emulateMedia({ colorScheme: first });
    await page.setViewportSize({ width, height: 900 });
    const complaints = complaintsOf(page, new URL(base), shown);
    const response = await page.goto(`${base}${shown.path}`);
    t.equal(response?.status(), shown.status ?? 200, where);
    t.same(await latecomers(page), [], `${where}: nothing is painted before the colors are known`);
    await shown.prepare?.(page);
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), width, `${where}: no wider`);
    if (first === 'dark') {
      const bright = await brightPart(page);
      t.ok(bright < maxBright, `${where}: ${bright} % is bright`);
    }
    const colours = [await coloursOf(page)];
    await page.emulateMedia({ colorScheme: other });
    t.equal(
      await page.evaluate('document.documentElement.scrollWidth'),
      width,
      `${where}, ${other}: no wider`,
    );
    colours.push(await coloursOf(page));
    for (const [index, scheme] of ([first, other] as const).entries()) {
      const before = seen.get(scheme);
      const now = colours[index] ?? new Set();
      // A page that is loaded in a scheme looks like one that was switched to it.
      if (before !== undefined)
        t.same(differenceOf(now, before), [], `${where}, ${scheme}: the previous colors`);
      if (width >= laptop) seen.set(scheme, now);
    }
    t.same(complaints, [], `${where}: no complaints`);
    await page.evaluate(`${axe};undefined`);
    // The loads already cover two widths of each scheme, and axe takes most of the time of this test.
    if (isExhaustive) t.same(await violationsOf(page), [], `${where}, ${other}: axe`);
    await page.emulateMedia({ colorScheme: first });
    t.same(await violationsOf(page), [], `${where}, ${first}: axe`);
    await page.close();
  }
}

function differenceOf(now: ReadonlySet<string>, before: ReadonlySet<string>): string[] {
  const only = (some: ReadonlySet<string>, others: ReadonlySet<string>, sign: string): string[] =>
    [...some].filter((one) => !others.has(one)).map((one) => `${sign} ${one}`);
  return [...only(before, now, '-'), ...only(now, before, '+')];
}

/** Settings with which a page would first appear in the colors of the browser and then in its own. */
async function latecomers(page: Page): Promise<unknown> {
  return page.evaluate(`[
    ...(document.querySelector('meta[name=color-scheme]')?.content === 'light dark' ? [] : ['no color-scheme']),
    ...performance.getEntriesByType('resource')
      .filter(({ name, renderBlockingStatus }) => name.endsWith('.css') && renderBlockingStatus !== 'blocking')
      .map(({ name }) => name),
    ...document.querySelectorAll('body :is(style, link[rel=stylesheet])'),
  ]`);
}

/** Every color on the page, with its elements. */
async function coloursOf(page: Page): Promise<Set<string>> {
  const found = await page.evaluate<string[]>(`[...new Set(
    [...document.querySelectorAll('html, body, body *')].map((one) => {
      const { color, backgroundColor, backgroundImage, borderTopColor, fill, stroke } = getComputedStyle(one);
      const name = one.tagName + '.' + (one.getAttribute('class') ?? '');
      return [name, color, backgroundColor, backgroundImage, borderTopColor, fill, stroke].join(' ');
    }),
  )]`);
  return new Set(found);
}

/** The bright share of the window in percent, without text and the images of a bundle. */
async function brightPart(page: Page): Promise<number> {
  await page.evaluate(withoutText);
  const png = await page.screenshot({ mask: [page.locator('img')], maskColor: '#000000' });
  await page.evaluate('document.adoptedStyleSheets = []');
  const counter = await page.context().newPage();
  const part = await counter.evaluate<number>(`(async () => {
    const picture = await createImageBitmap(await (await fetch('data:image/png;base64,${png.toString('base64')}')).blob());
    const canvas = new OffscreenCanvas(picture.width, picture.height);
    const context = canvas.getContext('2d');
    context.drawImage(picture, 0, 0);
    const { data } = context.getImageData(0, 0, picture.width, picture.height);
    let bright = 0;
    for (let at = 0; at < data.length; at += 4)
      if (0.2126 * data[at] + 0.7152 * data[at + 1] + 0.0722 * data[at + 2] > 160) bright++;
    return Math.round((1000 * bright) / (data.length / 4)) / 10;
  })()`);
  await counter.close();
  return part;
}

async function violationsOf(page: Page): Promise<unknown> {
  return page.evaluate(
    `axe.run({ resultTypes: ['violations'] }).then(({violations}) => violations.map(({id, nodes}) => [id, nodes.map((node) => node.html)]))`,
  );
}
