import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { startChromium } from '../services/chromium.ts';
import { startRedis } from '../services/redis.ts';
import { type ConsoleDaemon, logIn, startConsole } from './console-daemon.ts';

let browser: Browser;
let daemon: ConsoleDaemon;
t.setTimeout(0);
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

/** Presses Tab until the element with this name has the focus. */
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

t.test('works by keyboard alone, from the login to a rerun', async (t) => {
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
  await tabTo(page, /^session-1$/);
  await page.keyboard.press('Enter');
  await page.waitForURL(/console\/runs\//);
  const before = page.url();
  await tabTo(page, /^Run again$/);
  await page.keyboard.press('Enter');
  await page.waitForURL((url) => url.href !== before && url.searchParams.get('done') === 'rerun');
  t.match(await page.getByRole('status').first().innerText(), /repeated/);
});

t.test('the overview names the failed pipeline, the cause, the starter of the run and the fix', async (t) => {
  const failed = await daemon.start('blocked');
  const page = await open(t);
  await page.goto(`${daemon.base}console`);
  const attention = page.locator('#attention');
  const text = (await attention.innerText()).replace(/\s+/g, ' ');
  t.match(text, /1 pipeline failing \d of the last \d+ runs failed blocked/);
  t.match(
    text,
    /blocked → full Started by operator \(manual start\) ?\d+ \w+ \d{4}, [\d:]{8} UTC \(just now\)/,
  );
  t.match(
    text,
    /Files in the way\. There are files that waybill did not write, such as "[^"]+" \(no \.publisher\.json\)\. Nothing was changed\. What to do: Move these files away, or publish to another path\. Open/,
  );
  // The same run would fail again.
  t.equal(await attention.getByRole('button', { name: 'Run again' }).count(), 0);
  t.equal(
    (await page.locator('.pipeline h3').first().innerText()).trim(),
    'blocked',
    'the failing pipeline comes first',
  );
  const bar = page.locator('.pipeline .bars a').first();
  t.match(await bar.getAttribute('href'), failed.run_id);
  await bar.click();
  await page.waitForURL(new RegExp(failed.run_id));
  t.match(
    (await page.locator('#outcome').innerText()).replace(/\s+/g, ' '),
    /^Files in the way at full .* What to do: Move these files away, or publish to another path\. Then run it again\. To list the files: This command deletes nothing\. Without --dry-run, it deletes them and everything else there, and publishes\. .* --dry-run Copy/,
  );
  t.match(
    (await page.locator('#head').innerText()).replace(/\s+/g, ' '),
    /^Run of \d+ \w+, [\d:]{5} → full ✕ failed Run again Started by operator \(manual start\)/,
  );
  t.notOk(await page.locator('#destinations').isVisible(), 'the only destination is in the error');
  t.equal(await page.locator('#outcome progress').count(), 0, 'a failed run has no full bar');
  t.notMatch(
    await page.locator('#head').getByRole('button', { name: 'Run again' }).getAttribute('class'),
    /primary/,
    'the same run would fail again',
  );
  t.match(
    await page.locator('#history').innerText(),
    /Accepted and started: manual start by operator[^]*Run failed/,
  );
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Runs' }).click();
  await page.waitForURL(/console\/runs$/);
});

/**
 * From now on, the page records the positions of these elements at every change of it. It skips the time of
 * a pause notice at the top, because the test only pauses to delay a run.
 */
async function watchPlaces(page: Page, selectors: string): Promise<void> {
  await page.evaluate(`
    window.places = new Set();
    const note = () => document.querySelector('[data-paused]') === null && window.places.add(
      [...document.querySelectorAll(${JSON.stringify(selectors)})].map((one) => {
        const { x, y, width, height } = one.getBoundingClientRect();
        return (one.id || one.className || one.tagName) + ' ' + [x, y, width, height].join(' ');
      }).join('\\n'));
    note();
    new MutationObserver(note).observe(document.body, {
      subtree: true, childList: true, attributes: true, characterData: true,
    });
    undefined;
  `);
}

/** A page that follows a run of `maps`: its content about the run, and the elements that never move. */
interface LivePage {
  path: (runId: string) => string;
  still: string;
  shows: Record<'queued' | 'running' | 'succeeded', (page: Page, runId: string) => Locator>;
}

const badgeOf = (place: string) => (status: string) => (page: Page) =>
  page.locator(`${place} .badge`, { hasText: status });
const card = '.pipeline:has(h3 a[href$="/maps"])';
const [ofPipeline, ofFirstRun, ofRun] = [
  badgeOf(card),
  badgeOf('#runs tbody tr:first-child'),
  badgeOf('#head'),
];
const livePages: Record<string, LivePage> = {
  overview: {
    path: () => 'console',
    still: 'h1, .title .actions, .pipeline',
    shows: {
      queued: (page) => page.locator(`${card} .facts div`, { hasText: /Waiting\s*1/ }),
      running: ofPipeline('running'),
      succeeded: ofPipeline('succeeded'),
    },
  },
  pipeline: {
    path: () => 'console/pipelines/maps',
    still: 'h1, .title .actions, #facts, #places, #runs .card-head',
    shows: {
      queued: ofFirstRun('waiting'),
      running: ofFirstRun('running'),
      succeeded: ofFirstRun('succeeded'),
    },
  },
  runs: {
    path: () => 'console/runs',
    still: 'h1, form.filters, #runs tbody tr:first-child',
    shows: {
      queued: ofFirstRun('waiting'),
      running: ofFirstRun('running'),
      succeeded: ofFirstRun('succeeded'),
    },
  },
  run: {
    path: (runId) => `console/runs/${runId}`,
    still: 'h1, #head, #outcome, #destinations .card-head',
    shows: {
      queued: ofRun('waiting'),
      running: (page) => page.locator('#outcome progress + p', { hasText: /\d of \d/ }),
      succeeded: ofRun('succeeded'),
    },
  },
};

for (const width of [360, 1280])
  for (const [name, { path, still, shows }] of Object.entries(livePages))
    t.test(
      `at ${width} pixels the page ${name} follows a run without moving content above its list`,
      async (t) => {
        const page = await open(t, { viewport: { width, height: 900 } });
        const shown = (status: keyof typeof shows, runId: string) =>
          shows[status](page, runId).waitFor({ timeout: 0 });
        const accept = () =>
          daemon.held(async () =>
            daemon.accept(
              { 'index.html': `live at ${width} on the ${name}` },
              { created: new Date().toISOString() },
            ),
          );
        const early = name === 'run' ? await accept() : null;
        await page.goto(`${daemon.base}${path(early?.runId ?? '')}`);
        await page.locator('[data-events]').waitFor({ state: 'hidden' });
        await watchPlaces(page, still);
        const { runId, letGo } = early ?? (await accept());
        await shown('queued', runId);
        const lock = daemon.lock();
        await letGo();
        await shown('running', runId);
        lock.unlock();
        t.match(await daemon.follow(runId), { status: 'succeeded', error: null });
        await shown('succeeded', runId);
        const [first = '', ...others] = await page.evaluate<string[]>('[...window.places]');
        t.match(first, /\d/);
        t.same(others, [], first);
      },
    );

t.test('on a phone, all of a row of the list of runs leads to its run', async (t) => {
  const { run_id: id } = await daemon.publish({ 'index.html': 'to touch' });
  const page = await open(t, { viewport: { width: 360, height: 900 } });
  await page.goto(`${daemon.base}console/runs`);
  const row = page.locator('#runs tbody tr', { has: page.locator(`a[href$="${id}"]`) });
  const status = await row.locator('.status').boundingBox();
  if (status === null) throw new Error('the status has no place');
  await page.mouse.click(status.x + status.width / 2, status.y + status.height / 2);
  await page.waitForURL((url) => url.pathname.endsWith(id));
});

t.test('no page with thirty rows scrolls horizontally on a phone', async (t) => {
  for (let run = 0; run < 30; run += 1) await daemon.start('blocked');
  const names = Array.from({ length: 30 }, (_, index) => `notes/of-a-day/number-${index}.txt`);
  const files = Object.fromEntries(names.map((name) => [name, name]));
  for (let run = 0; run < 30; run += 1) {
    const created = new Date(Date.now() + run).toISOString();
    await daemon.publish({ ...files, 'index.html': `${run}` }, { created, name: `session-${run}` });
  }
  const { run_id: failed } = await daemon.start('blocked');
  const page = await open(t);
  const maps = 'console/pipelines/maps';
  for (const path of [
    ...['console', 'console/runs', `console/runs/${failed}`, 'console/pipelines/blocked', maps],
    ...[`${maps}/trends`, `${maps}/upload`, `${maps}/destinations/web?path=session-1`],
    ...[`${maps}/destinations/site/releases`, 'console/pipelines/library/plan', 'console/runs/none'],
  ]) {
    await page.goto(`${daemon.base}${path}`);
    for (const width of [320, 360, 390, 430]) {
      await page.setViewportSize({ width, height: 900 });
      t.equal(await page.evaluate('document.documentElement.scrollWidth'), width, `${path} at ${width}`);
    }
  }
});

t.test('a destination marks the files that are kept from earlier bundles', async (t) => {
  for (const [name, day] of [
    ['old.txt', 20],
    ['new.txt', 21],
  ] as const)
    await daemon.publish({ [name]: name }, { name: 'keeping', created: `2026-11-${day}T01:02:03Z` });
  const page = await open(t);
  await page.goto(`${daemon.base}console/pipelines/maps/destinations/web?path=keeping`);
  const files = page.getByRole('region', { name: 'keeping' });
  t.match(
    await files.innerText(),
    /Newest published bundle\s+keeping\s+2 files, 14 B: 1 in this bundle, 1 kept/,
  );
  t.match(await files.getByRole('row').filter({ hasText: 'old.txt' }).innerText(), /old\.txt kept/);
  t.notMatch(await files.getByRole('row').filter({ hasText: 'new.txt' }).innerText(), /kept/);
});

t.test(
  'a destination without its catalog says to restore it, and its pipeline links to these steps',
  async (t) => {
    const full = path.join(daemon.root, 'public/full');
    rmSync(path.join(full, 'index.html'));
    t.equal((await daemon.start('blocked')).status, 'succeeded');
    rmSync(path.join(full, '.publisher.json'));
    await daemon.start('blocked');
    const page = await open(t);
    await page.goto(`${daemon.base}console/pipelines/blocked`);
    const status = page.getByRole('region', { name: 'Files in the way at full' });
    t.notMatch(await status.innerText(), /Move these files/);
    await status.getByRole('link', { name: 'What to do at full' }).click();
    const failure = page.getByRole('region', { name: 'Files in the way' });
    t.match(
      (await failure.innerText()).replace(/\s+/g, ' '),
      /With a backup: restore \.publisher\.json to \S+\/public\/full, and run again\. Without a backup: list the files/,
    );
    t.equal(await failure.locator('.copy.primary').count(), 0);
  },
);

t.test('a run links to the page of its scene map', async (t) => {
  const page = await open(t);
  const map = readFileSync('examples/scene-maps/session-42-findings.json', 'utf8');
  const { run_id: id } = await daemon.publish(
    { 'maps/one.json': map },
    { name: 'mapped', created: new Date().toISOString(), kinds: { 'maps/one.json': 'scene_map' } },
  );
  await page.goto(`${daemon.base}console/runs/${id}`);
  const link = page.getByRole('link', { name: 'Open the published page at web' });
  const address = new URL((await link.getAttribute('href')) ?? '', daemon.base).href;
  const redirect = await page.request.get(address, { maxRedirects: 0 });
  t.match(
    [redirect.status(), redirect.headers()['location']],
    [303, 'https://maps.example.org/mapped/maps/one.html'],
  );
  await page.goto(`${daemon.base}console/pipelines/maps/destinations/web?path=mapped`);
  t.ok(await page.getByRole('link', { name: 'Scene map maps/one.html' }).isVisible());
  await page.goto(`${daemon.base}console/runs/${id}`);
  await page.getByRole('link', { name: 'Open the published page at site' }).click();
  await page.waitForURL(/destinations\/site\?path=/, undefined);
  t.pass('to the catalog if no address is known');
});

for (const driver of ['embedded', 'bullmq'] as const)
  t.test(`with the queue ${driver}, every page loads and follows a run live`, async (t) => {
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
    await page.locator(`#runs a[href$="${id}"]`).waitFor();
    await page.locator('#runs').getByText('succeeded').nth(1).waitFor();
  });
