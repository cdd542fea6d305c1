import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import mime from 'mime';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { waybill } from '../cli/process.ts';
import { startChromium } from '../services/chromium.ts';

// The build takes 10 seconds, and many times that on a busy machine.
t.setTimeout(0);

const base = '/handbook/';
/** Contains the built site, and the example that publishes it. */
const place = mkdtempSync(path.join(tmpdir(), 'waybill-docs-site-'));
const published = path.join(place, 'demo-run/docs/current');
t.teardown(() => rmSync(place, { recursive: true, force: true }));

t.before(() => {
  const { status, stderr } = build('.', '--base', base, '--outDir', path.join(place, 'site'));
  if (status !== 0) throw new Error(stderr);
  cpSync('examples/docs-site', path.join(place, 'examples/docs-site'), { recursive: true });
});

t.test('examples/docs-site publishes the built site, and nothing if it is unchanged', async (t) => {
  const config = path.join(place, 'examples/docs-site/waybill.yml');
  t.match(waybill(['run', '--config', config]), { status: 0, stdout: 'publish_new=1' });
  t.match(waybill(['run', '--config', config]), { status: 0, stdout: 'skip_same=1' });
  t.ok(existsSync(path.join(published, 'installation.html')));
});

t.test('every link of the site has an existing file and anchor', async (t) => {
  const files = readdirSync(published, { recursive: true, encoding: 'utf8' });
  const anchors = new Map<string, Set<string>>();
  const html = new Map<string, string>();
  for (const file of files.filter((name) => name.endsWith('.html'))) {
    const text = readFileSync(path.join(published, file), 'utf8');
    html.set(file, text);
    anchors.set(file, new Set([...text.matchAll(/ id="([^"]+)"/g)].map(([, id = '']) => id)));
  }
  const broken: string[] = [];
  let followed = 0;
  for (const [file, text] of html)
    for (const [, href = ''] of text.matchAll(/ (?:href|src)="([^"]+)"/g)) {
      if (/^[a-z]+:/.test(href)) continue;
      followed += 1;
      const [address = '', anchor] = href.split('#');
      const target = address === '' ? file : address.slice(base.length).replace(/^$|\/$/, '$&index.html');
      const isThere = (address === '' || address.startsWith(base)) && files.includes(target);
      const hasAnchor = anchor === undefined || anchors.get(target)?.has(decodeURIComponent(anchor));
      if (!isThere || hasAnchor !== true) broken.push(`${file}: ${href}`);
    }
  t.same([...new Set(broken)], []);
  t.ok(followed > 1_000, `${followed} links were followed`);
});

t.test('braces in code are displayed, not evaluated', async (t) => {
  const textOf = (file: string): string => readFileSync(path.join(published, file), 'utf8');
  t.match(textOf('ci.html'), '${{ secrets.WAYBILL_TOKEN }}');
  t.match(textOf('configuration.html'), '{{pipeline}}: {{bundle}} {{outcome}}');
});

t.test('a dead link fails the build', async (t) => {
  const copy = path.join(place, 'dead-link');
  mkdirSync(copy);
  for (const name of ['docs', 'examples', 'schemas', ...readdirSync('.').filter((one) => /^[A-Z]/.test(one))])
    cpSync(name, path.join(copy, name), { recursive: true });
  for (const name of ['package.json', 'compose.yaml', 'node_modules'])
    symlinkSync(path.resolve(name), path.join(copy, name));
  appendFileSync(path.join(copy, 'docs/publish.md'), '\n[gone](gone.md)\n');
  const { status, stderr } = build(copy);
  t.not(status, 0);
  t.match(stderr, 'docs/publish.md links to gone.md, which is not a file');
});

t.test(
  'pages load nothing from other hosts, can be searched, and fit a phone in light and dark',
  async (t) => {
    const origin = await serve(t, published);
    const browser = await startChromium();
    t.teardown(() => browser.close());
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await browser.newPage({ viewport: { width: 360, height: 780 }, colorScheme });
      const elsewhere: string[] = [];
      const failed: string[] = [];
      page.on('request', (request) => {
        if (!request.url().startsWith(origin) && !request.url().startsWith('data:'))
          elsewhere.push(request.url());
      });
      page.on('response', (response) => {
        if (response.status() >= 400) failed.push(response.url());
      });
      for (const name of [
        '',
        'installation.html',
        'configuration.html',
        'overview.html',
        'tutorials/five-minute-tour.html',
      ]) {
        await page.goto(`${origin}${base}${name}`, { waitUntil: 'networkidle' });
        t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360, `${name} fits`);
        t.same(await contrastProblems(page), [], `${name} in ${colorScheme} can be read`);
      }
      t.equal(await page.locator('html.dark').count(), colorScheme === 'dark' ? 1 : 0);
      await page.locator('#local-search button').click();
      await page.locator('#localsearch-input').fill('idempotency key');
      await page.locator('.results a').first().click();
      await page.waitForURL(/\.html/);
      t.same(elsewhere, []);
      t.same(failed, []);
      await page.close();
    }
  },
);

t.test('schedules, rollback, previews and the comparison are at most two clicks away', async (t) => {
  const origin = await serve(t, published);
  const browser = await startChromium();
  t.teardown(() => browser.close());
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  for (const [links, heading] of [
    [['Schedule runs and watch sources'], 'Schedules'],
    [['Switch releases and roll back'], 'Back from a bad release at 3 a.m.'],
    [['Switch releases and roll back', 'Previews: channels'], 'Previews: channels'],
    [['Comparison'], 'Comparison'],
  ] as const) {
    await page.goto(`${origin}${base}`);
    for (const name of links) await page.getByRole('link', { name, exact: true }).first().click();
    await page
      .getByRole('heading', { name: new RegExp(`^${heading}`) })
      .first()
      .waitFor();
  }
});

function build(clone: string, ...args: string[]): { status: number | null; stderr: string } {
  return spawnSync(
    process.execPath,
    [path.resolve('node_modules/vitepress/bin/vitepress.js'), 'build', 'docs', ...args],
    { cwd: clone, encoding: 'utf8', env: { ...process.env, NODE_OPTIONS: '' } },
  );
}

async function contrastProblems(page: Page): Promise<unknown> {
  const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
  await page.evaluate(`${readFileSync(axe, 'utf8')};undefined`);
  return page.evaluate(
    'axe.run(".VPDoc main").then(({ violations }) => violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`)))',
  );
}

/** Serves a directory below `base`, like a simple web server. */
async function serve(t: Test, directory: string): Promise<string> {
  const server = createServer((req, res) => {
    const name = decodeURI(new URL(req.url ?? '', 'http://x').pathname).slice(base.length) || 'index.html';
    const file = path.join(directory, name);
    if (existsSync(file))
      res.writeHead(200, { 'Content-Type': mime.getType(name) ?? '' }).end(readFileSync(file));
    else res.writeHead(404).end();
  });
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
}
