import { readFileSync } from 'node:fs';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { startChromium } from '../services/chromium.ts';
import { startRedis } from '../services/redis.ts';
import { logIn, startConsole, type ConsoleDaemon } from './console-daemon.ts';

let browser: Browser;
let daemon: ConsoleDaemon;
t.setTimeout(300_000);
t.before(async () => {
  browser = await startChromium();
  daemon = await startConsole(t);
  await daemon.publish({ 'index.html': 'first' }, { created: '2026-11-20T01:02:03Z' });
});
t.teardown(() => browser.close());

async function open(t: Test, options: Parameters<Browser['newContext']>[0] = {}): Promise<Page> {
  const context: BrowserContext = await browser.newContext(options);
  t.teardown(() => context.close());
  const page = await context.newPage();
  await logIn(page, daemon.base);
  return page;
}

/** Presses Tab until the element of this name has the focus. */
async function tabTo(page: Page, name: RegExp): Promise<void> {
  for (let step = 0; step < 60; step++) {
    await page.keyboard.press('Tab');
    const focused = await page.evaluate(
      'document.activeElement.getAttribute("aria-label") ?? document.activeElement.innerText ?? ""',
    );
    if (name.test(String(focused))) return;
  }
  throw new Error(`nothing named ${name.source} is reached by the keyboard`);
}

t.test('keyboard alone, from the login to a rerun', async (t) => {
  const context = await browser.newContext();
  t.teardown(() => context.close());
  const page = await context.newPage();
  await page.goto(`${daemon.base}console`);
  // The field has the focus by itself.
  await page.locator('input:focus').waitFor();
  await page.keyboard.type('the-token-of-the-operator-of-all');
  await page.keyboard.press('Enter');
  await page.waitForURL(`${daemon.base}console`);
  await tabTo(page, /^maps$/);
  await page.keyboard.press('Enter');
  await page.waitForURL(/pipelines\/maps/);
  await tabTo(page, /^maps\.\d/);
  await page.keyboard.press('Enter');
  await page.waitForURL(/console\/runs\//);
  const before = page.url();
  await tabTo(page, /^Run again$/);
  await page.keyboard.press('Enter');
  await page.waitForURL((url) => url.href !== before && url.searchParams.get('done') === 'rerun');
  t.match(await page.getByRole('status').first().innerText(), /repeated/);
});

t.test('from a failed run on the overview to its reason and hint it is two clicks', async (t) => {
  await daemon.start('blocked');
  const page = await open(t);
  await page.getByRole('link', { name: 'blocked' }).click();
  await page.getByRole('link', { name: 'The last run failed' }).click();
  const text = await page.locator('main').innerText();
  t.match(text, /not managed by waybill/);
  t.match(text, /What to do:[^]*look at what is there/);
});

/** From now on the page adds up what jumps in it, and `window.noted` is when this expression held first. */
async function watch(page: Page, holds: string): Promise<void> {
  await page.evaluate(`
    window.shifts = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
    }).observe({ type: 'layout-shift' });
    window.noted = new Promise((resolve) => {
      const look = () => { if (${holds}) resolve(Date.now()); };
      look();
      new MutationObserver(look).observe(document.body, {
        subtree: true, childList: true, attributes: true, characterData: true,
      });
    });
    undefined;
  `);
}

const notedBy = (page: Page): Promise<number> => page.evaluate('window.noted');

/** Text of the last element that this finds, as an expression of the page. */
const textAt = (selector: string): string =>
  `([...document.querySelectorAll(${JSON.stringify(selector)})].at(-1)?.textContent ?? '')`;

/** What a page shows of a run of `maps` that waits, and of one that is over. */
const liveParts: Record<string, { path: string; waits: string; isOver: (runId: string) => string }> = {
  overview: {
    path: 'console',
    waits: `/Waiting1/.test(${textAt('.pipeline:first-child .facts')}.replaceAll(/\\s/g, ''))`,
    isOver: () => `${textAt('.pipeline:first-child .badge')}.includes('succeeded')`,
  },
  pipeline: {
    path: 'console/pipelines/maps',
    waits: `${textAt('#runs tbody tr:first-child')}.includes('queued')`,
    isOver: (id) => `document.querySelector('#grid a[href$="${id}"]')?.title.includes('succeeded')`,
  },
  runs: {
    path: 'console/runs',
    waits: `${textAt('#runs tbody tr:first-child')}.includes('queued')`,
    isOver: (id) =>
      `document.querySelector('#runs a[href$="${id}"]')?.closest('tr').textContent.includes('succeeded')`,
  },
};

async function shiftsOf(page: Page): Promise<number> {
  // What jumps is told with the next frame.
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))');
  return Number(await page.evaluate('window.shifts'));
}

for (const width of [360, 1280])
  for (const [name, { path, waits, isOver }] of Object.entries(liveParts))
    t.test(`at ${width} pixels the ${name} follows a run within a second, and nothing jumps`, async (t) => {
      const page = await open(t, { viewport: { width, height: 900 } });
      await page.goto(`${daemon.base}${path}`);
      await page.locator('[data-events]').waitFor({ state: 'hidden' });
      await watch(page, waits);
      const text = `live at ${width} on the ${name}`;
      const held = await daemon.held(async () =>
        daemon.accept({ 'index.html': text }, { created: new Date().toISOString() }),
      );
      const waiting = await notedBy(page);
      let shifts = await shiftsOf(page);
      await watch(page, isOver(held.runId));
      await held.letGo();
      const record = await daemon.follow(held.runId);
      t.match(record, { status: 'succeeded', error: null });
      const over = await notedBy(page);
      shifts += await shiftsOf(page);
      // All times are of this machine: when something was so, and when it was on the page.
      const late = [waiting - Date.parse(record.accepted_at), over - Date.parse(record.finished_at ?? '')];
      t.comment(`on the page after ${late.join(' and ')} ms, jumped ${shifts}`);
      for (const ms of late) t.ok(ms < 1_000, `${ms} ms`);
      t.ok(shifts < 0.02, `${shifts}`);
    });

for (const width of [360, 1280])
  t.test(`at ${width} pixels a waiting run becomes a done one on its own page without a jump`, async (t) => {
    const page = await open(t, { viewport: { width, height: 900 } });
    const held = await daemon.held(async () =>
      daemon.accept({ 'index.html': `held at ${width}` }, { created: new Date().toISOString() }),
    );
    await page.goto(`${daemon.base}console/runs/${held.runId}`);
    await page.locator('[data-events]').waitFor({ state: 'hidden' });
    await watch(page, `${textAt('#head')}.includes('succeeded')`);
    await held.letGo();
    const record = await daemon.follow(held.runId);
    t.match(record, { status: 'succeeded', error: null });
    const late = (await notedBy(page)) - Date.parse(record.finished_at ?? '');
    const shifts = await shiftsOf(page);
    t.comment(`on the page after ${late} ms, jumped ${shifts}`);
    t.ok(late < 1_000, `${late} ms`);
    t.ok(shifts < 0.02, `${shifts}`);
  });

t.test('a run leads to the page of its scene map', async (t) => {
  const page = await open(t);
  const map = readFileSync('examples/scene-maps/session-42-findings.json', 'utf8');
  const { run_id: id } = await daemon.publish(
    { 'maps/one.json': map },
    { name: 'mapped', created: new Date().toISOString(), kinds: { 'maps/one.json': 'scene_map' } },
  );
  await page.goto(`${daemon.base}console/runs/${id}`);
  const link = page.getByRole('link', { name: 'Open what is published at web' });
  const address = new URL((await link.getAttribute('href')) ?? '', daemon.base).href;
  const led = await page.request.get(address, { maxRedirects: 0 });
  t.match([led.status(), led.headers()['location']], [303, 'https://maps.example.org/mapped/maps/one.html']);
  await page.goto(`${daemon.base}console/pipelines/maps/destinations/web?path=mapped`);
  t.ok(await page.getByRole('link', { name: 'Scene map maps/one.html' }).isVisible());
  await page.goto(`${daemon.base}console/runs/${id}`);
  await page.getByRole('link', { name: 'Open what is published at site' }).click();
  await page.waitForURL(/destinations\/site\?path=/, undefined);
  t.pass('where no address is known, to the catalog');
});

for (const driver of ['embedded', 'bullmq'] as const)
  t.test(`with the queue ${driver} every page answers, and a run is followed live`, async (t) => {
    const redis = driver === 'bullmq' ? await startRedis() : null;
    if (redis !== null) t.teardown(() => redis.close());
    const queue = redis === null ? '{driver: embedded}' : '{driver: bullmq, redis_url_env: T_REDIS}';
    const other = await startConsole(t, queue, { T_REDIS: redis?.url ?? '' });
    const worker = redis === null ? null : await other.work();
    if (worker !== null) t.teardown(() => worker.close());
    const { run_id: first } = await other.publish({ 'index.html': 'first' });
    const context = await browser.newContext();
    t.teardown(() => context.close());
    const page = await context.newPage();
    await logIn(page, other.base);
    const maps = 'console/pipelines/maps';
    for (const path of [
      ...['console', 'console/runs', `console/runs/${first}`, maps, `${maps}/trends`, `${maps}/upload`],
      ...[`${maps}/destinations/web`, `${maps}/destinations/site/releases`, 'console/pipelines/library/plan'],
    ])
      t.equal((await page.goto(`${other.base}${path}`))?.status(), 200, path);
    await page.goto(`${other.base}${maps}`);
    const { run_id: id } = await other.publish({ 'index.html': 'next' }, { created: '2026-11-22T01:02:03Z' });
    await page.locator(`#grid a[href$="${id}"]`).waitFor({ timeout: 10_000 });
    await page.locator('#runs').getByText('succeeded').nth(1).waitFor({ timeout: 10_000 });
  });
