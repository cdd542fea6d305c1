import { readFileSync } from 'node:fs';
import path from 'node:path';
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

t.test('a live run moves on the page within a second, and nothing jumps', async (t) => {
  const page = await open(t, { viewport: { width: 1280, height: 900 } });
  await page.goto(`${daemon.base}console/pipelines/maps`);
  await page.evaluate(`
    window.shifts = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
    }).observe({ type: 'layout-shift', buffered: true });
  `);
  const runs = page.locator('#grid td.cell a');
  const before = await runs.count();
  await page.evaluate(`
    window.seen = new Map();
    new MutationObserver(() => {
      for (const { href } of document.querySelectorAll('#grid td.cell a')) {
        const id = href.split('/').at(-1);
        if (!window.seen.has(id)) window.seen.set(id, Date.now());
      }
    }).observe(document.querySelector('#grid'), { subtree: true, childList: true, attributes: true });
  `);
  const record = await daemon.publish({ 'index.html': 'live' }, { created: '2026-11-21T01:02:03Z' });
  await page.locator(`#grid a[href$="${record.run_id}"]`).waitFor({ timeout: 10_000 });
  t.equal(await runs.count(), before + 1);
  // Both times are of this machine: when the daemon accepted it, and when it was on the page.
  const seen = Number(await page.evaluate(`window.seen.get(${JSON.stringify(record.run_id)})`));
  const late = seen - Date.parse(record.accepted_at);
  t.comment(`on the page ${late} ms after it was accepted`);
  t.ok(late < 1_000, `${late} ms`);
  const shifts = Number(await page.evaluate('window.shifts'));
  t.ok(shifts < 0.02, `${shifts}`);
});

t.test('a waiting run becomes a done one on its own page without a jump', async (t) => {
  const page = await open(t, { viewport: { width: 1280, height: 900 } });
  const held = await daemon.held(async () =>
    daemon.accept({ 'index.html': 'held' }, { created: '2026-11-21T12:00:00Z' }),
  );
  await page.goto(`${daemon.base}console/runs/${held.runId}`);
  await page.evaluate(`
    window.shifts = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
    }).observe({ type: 'layout-shift', buffered: false });
  `);
  await held.letGo();
  t.match(await daemon.follow(held.runId), { status: 'succeeded', error: null });
  await page.locator('#head').getByText('succeeded').waitFor({ timeout: 10_000 });
  const shifts = Number(await page.evaluate('window.shifts'));
  t.ok(shifts < 0.02, `${shifts}`);
});

t.test('without script everything is there, and every action is a form', async (t) => {
  const page = await open(t, { javaScriptEnabled: false });
  await page.goto(`${daemon.base}console/pipelines/library`);
  await page.getByRole('button', { name: 'Start a run' }).click();
  await page.waitForURL(/done=started/);
  await daemon.follow(new URL(page.url()).pathname.split('/').at(-1) ?? '');
  await page.reload();
  t.match(await page.locator('main').innerText(), /succeeded[^]*published new/);
  await page.getByRole('button', { name: 'Run again' }).click();
  await page.waitForURL(/done=rerun/);
  await page.goto(`${daemon.base}console/pipelines/library/plan`);
  await page.getByRole('button', { name: 'Make a plan' }).click();
  t.match(await page.locator('main').innerText(), /shelf/);
  await page.getByRole('button', { name: 'Run it as planned' }).click();
  await page.waitForURL(/done=started/);
  await page.goto(`${daemon.base}console/pipelines/maps/upload`);
  const archive = await daemon.archive({ 'index.html': 'by a form' }, '2026-11-22T01:02:03Z');
  const file = { name: 'bundle.tar', mimeType: 'application/x-tar', buffer: archive };
  await page.getByLabel('A bundle as tar or tar.gz').setInputFiles(file);
  await page.getByRole('button', { name: 'Only plan it' }).click();
  t.match(await page.locator('main').innerText(), /What publishing it would do[^]*web/);
  await page.getByLabel('A bundle as tar or tar.gz').setInputFiles(file);
  await page.getByRole('button', { name: 'Upload', exact: true }).click();
  await page.waitForURL(/done=uploaded/);
  await daemon.follow(new URL(page.url()).pathname.split('/').at(-1) ?? '');
  await page.goto(`${daemon.base}console/pipelines/maps/destinations/web`);
  t.match(await page.locator('main').innerText(), /index\.html/);
  await page.getByRole('button', { name: 'Verify the bytes' }).click();
  t.match(await page.locator('main').innerText(), /clean/);
  await page.goto(`${daemon.base}console/pipelines/maps/destinations/site/releases`);
  await page
    .getByRole('button', { name: /^Roll back to/ })
    .first()
    .click();
  await page.waitForURL(/done=rolled_back/);
  t.match(await page.locator('main').innerText(), /Rolled back: readers have this release now/);
});

t.test('what is refused is told on the page of the form', async (t) => {
  const page = await open(t, { javaScriptEnabled: false });
  await daemon.start('library');
  await page.goto(`${daemon.base}console/runs?pipeline=library`);
  await page.locator('.runs tbody th a').first().click();
  const answers: number[] = [];
  page.on('response', (response) => {
    if (response.request().method() === 'POST') answers.push(response.status());
  });
  // A form of a page that was open while the run ended.
  const csrf = await page.locator('input[name=csrf]').first().inputValue();
  const send = async (path: string, fields: Record<string, string>): Promise<string> => {
    const response = await page.request.post(path, {
      form: { csrf, ...fields },
      headers: { accept: 'text/html' },
    });
    answers.push(response.status());
    return response.text();
  };
  const cancelled = await send(`${page.url()}/cancel`, {});
  t.match(cancelled, /Not done: [^<]*<[^]*<code>run_finished<\/code>[^]*Destinations/);
  t.notMatch(cancelled, 'http-equiv="refresh"');
  t.notMatch(cancelled, 'data-events', 'the address of a form is not followed');
  const started = await send(`${daemon.base}console/pipelines/library/start`, { channel: 'nope' });
  t.match(started, /Not done:[^]*channel_not_found[^]*Runs and destinations/);
  const planned = await send(`${daemon.base}console/pipelines/library/plan`, { channel: 'nope' });
  t.match(planned, /Not done:[^]*channel_not_found[^]*Make a plan/);
  const site = `${daemon.base}console/pipelines/maps/destinations/site/releases`;
  const activated = await send(`${site}/r-none/activate`, { verb: 'promote', path: '.' });
  t.match(activated, /Not done:[^]*release_not_found[^]*Releases/);
  t.strictSame(answers, [409, 404, 404, 404]);
  const forged = await page.request.post(`${page.url()}/cancel`, {
    form: { csrf: 'x' },
    headers: { accept: 'text/html' },
  });
  t.match(await forged.text(), 'form_expired');
  t.notMatch(await forged.text(), 'Not done', 'what is not of this session has no page');
});

t.test('a channel can be chosen where there is one', async (t) => {
  const page = await open(t, { javaScriptEnabled: false });
  await page.goto(`${daemon.base}console/pipelines/library`);
  await page.getByLabel('For').selectOption('channel preview');
  await page.getByRole('button', { name: 'Start a run' }).click();
  await page.waitForURL(/done=started/);
  const id = new URL(page.url()).pathname.split('/').at(-1) ?? '';
  t.match(await daemon.follow(id), { channel: 'preview', status: 'succeeded' });
  await page.goto(`${daemon.base}console/pipelines/library/plan`);
  await page.getByLabel('For').selectOption('channel preview');
  await page.getByRole('button', { name: 'Make a plan' }).click();
  t.match(await page.locator('main').innerText(), /draft/);
  t.notMatch(await page.locator('main').innerText(), /shelf/);
  await page.getByRole('button', { name: 'Run it as planned' }).click();
  await page.waitForURL(/done=started/);
  const planned = new URL(page.url()).pathname.split('/').at(-1) ?? '';
  t.match(await daemon.follow(planned), { channel: 'preview' });
  await page.goto(`${daemon.base}console/pipelines/maps/upload`);
  const buffer = await daemon.archive({ 'index.html': 'for a preview' }, '2026-11-22T02:00:00Z');
  const file = { name: 'bundle.tar', mimeType: 'application/x-tar', buffer };
  await page.getByLabel('A bundle as tar or tar.gz').setInputFiles(file);
  await page.getByRole('button', { name: 'Upload to channel preview' }).click();
  await page.waitForURL(/done=uploaded/);
  const uploaded = new URL(page.url()).pathname.split('/').at(-1) ?? '';
  t.match(await daemon.follow(uploaded), { channel: 'preview', status: 'succeeded' });

  const scripted = await open(t);
  await scripted.goto(`${daemon.base}console/pipelines/maps/upload`);
  await scripted.getByLabel('For').selectOption('channel preview');
  t.notOk(await scripted.getByRole('button', { name: 'Upload to channel preview' }).isVisible());
  await dropDirectory(scripted, { 'index.html': 'dropped for a preview' });
  await scripted.waitForURL(/done=uploaded/);
  const dropped = new URL(scripted.url()).pathname.split('/').at(-1) ?? '';
  t.match(await daemon.follow(dropped), { channel: 'preview', status: 'succeeded' });
});

t.test('without script a page is loaded again while its run is not over', async (t) => {
  const page = await open(t, { javaScriptEnabled: false });
  const held = await daemon.held(async () =>
    daemon.accept({ 'index.html': 'reloaded' }, { created: '2026-11-22T03:00:00Z' }),
  );
  for (const path of [`runs/${held.runId}`, 'pipelines/maps', '']) {
    await page.goto(`${daemon.base}console/${path}`.replace(/\/$/, ''));
    t.equal(await page.locator('meta[http-equiv=refresh]').count(), 1, path);
  }
  await page.goto(`${daemon.base}console/runs/${held.runId}`);
  await held.letGo();
  await daemon.follow(held.runId);
  // Nobody does anything.
  await page.locator('#head').getByText('succeeded').waitFor({ timeout: 20_000 });
  t.equal(await page.locator('meta[http-equiv=refresh]').count(), 0, 'and then no more');
});

t.test('a run leads to the page of its scene map', async (t) => {
  const page = await open(t);
  const map = readFileSync('examples/scene-maps/session-42-findings.json', 'utf8');
  const { run_id: id } = await daemon.publish(
    { 'maps/one.json': map },
    { name: 'mapped', created: '2026-11-22T04:00:00Z', kinds: { 'maps/one.json': 'scene_map' } },
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

/** A drop of a directory, as the browser hands it to the page. */
async function dropDirectory(page: Page, files: Record<string, string>): Promise<void> {
  await page.evaluate(
    `((files) => {
      const entryOf = (path, text) => ({
        isDirectory: false, name: path, file: (done) => done(new File([text], path)),
      });
      const directory = {
        isDirectory: true, name: 'bundle',
        createReader: () => {
          const batches = [Object.entries(files).map(([path, text]) => entryOf(path, text)), []];
          return { readEntries: (done) => done(batches.shift()) };
        },
      };
      const event = new Event('drop', { bubbles: true, cancelable: true });
      Object.defineProperty(event, 'dataTransfer', { value: { items: [{ webkitGetAsEntry: () => directory }] } });
      document.querySelector('#drop').dispatchEvent(event);
    })(${JSON.stringify(files)})`,
  );
}

t.test('a directory that is dropped ends published', async (t) => {
  const page = await open(t);
  await page.goto(`${daemon.base}console/pipelines/maps/upload`);
  const manifest = { schema_version: 1, name: 'dropped', created: '2026-11-23T01:02:03Z', files: ['a.txt'] };
  await dropDirectory(page, { 'a.txt': 'from a browser', 'manifest.json': JSON.stringify(manifest) });
  await page.waitForURL(/done=uploaded/);
  await page.locator('#head').getByText('succeeded').waitFor();
  t.equal(readFileSync(path.join(daemon.root, 'public/web/dropped/a.txt'), 'utf8'), 'from a browser');
});

t.test('a directory without a manifest gets one', async (t) => {
  const page = await open(t);
  await page.goto(`${daemon.base}console/pipelines/maps/upload`);
  await dropDirectory(page, { 'alone.txt': 'no manifest' });
  await page.waitForURL(/done=uploaded/);
  await page.locator('#head').getByText('succeeded').waitFor();
  t.pass();
});

t.test('three mistakes of a bundle are shown, each at its place in the manifest', async (t) => {
  const page = await open(t);
  await page.goto(`${daemon.base}console/pipelines/maps/upload`);
  const manifest = {
    schema_version: 1,
    created: '2026-11-23T01:02:03Z',
    files: [
      { path: 'a.txt', size: 5 },
      { path: 'missing.txt' },
      { path: 'b.txt', digest: `sha256:${'0'.repeat(64)}` },
    ],
  };
  const files = { 'a.txt': 'wrong size', 'b.txt': 'b', 'manifest.json': JSON.stringify(manifest, null, 2) };
  await dropDirectory(page, files);
  const wrong = page.locator('.manifest .wrong');
  await wrong.first().waitFor();
  const lines = await wrong.allInnerTexts();
  for (const name of ['a.txt', 'missing.txt', 'b.txt'])
    t.ok(
      lines.some((line) => line.includes(name)),
      `${name}: ${lines.join(' | ')}`,
    );
  t.equal(await page.locator('#upload-findings .findings li').count(), 3);
});
