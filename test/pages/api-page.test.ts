import { createRequire } from 'node:module';
import type { Browser, Page } from 'playwright-core';
import t from 'tap';
import { renderApiPage } from '../../src/api/openapi/api-page.ts';
import { openApiDocument } from '../../src/api/openapi/document.ts';
import { routes } from '../../src/api/routes.ts';
import { startApi } from '../api/harness.ts';
import { startChromium } from '../services/chromium.ts';

const axeFile = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
let browser: Browser;
let url = '';
t.before(async () => {
  browser = await startChromium();
  const { origin } = await startApi(t, { http: { basePath: '/waybill/' } });
  url = `${origin}/waybill/docs`;
});
t.teardown(() => browser.close());

async function open(options: Parameters<Browser['newPage']>[0] = {}): Promise<Page> {
  const page = await browser.newPage(options);
  t.teardown(() => page.close());
  await page.goto(url);
  return page;
}

t.test(
  'the page asks for nothing but itself, runs no script, and its policy lets its style through',
  async (t) => {
    const response = await fetch(url);
    t.match(response.headers.get('content-type'), /^text\/html/);
    t.match(response.headers.get('content-security-policy'), /^default-src 'none'; style-src 'sha256-/);
    t.notMatch(await response.text(), /<script|\sstyle=|\son\w+=|\ssrc=|href="https?:/i);
    const page = await browser.newPage({ javaScriptEnabled: false });
    t.teardown(() => page.close());
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.goto(url);
    t.same(asked, [url]);
    const styled = await open();
    t.equal(
      await styled.evaluate('getComputedStyle(document.querySelector("nav ul")).listStyleType'),
      'none',
    );
  },
);

t.test('axe finds nothing, at both widths, light and dark; nothing is wider than the window', async (t) => {
  for (const width of [360, 1280]) {
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await open({ viewport: { width, height: 900 }, colorScheme, bypassCSP: true });
      await page.evaluate('document.querySelectorAll("details").forEach((one) => (one.open = true))');
      await page.addScriptTag({ path: axeFile });
      const violations = await page.evaluate(
        'axe.run().then(({violations}) => violations.map(({id, nodes}) => [id, nodes.map((node) => node.html)]))',
      );
      t.same(violations, [], `${width} ${colorScheme}`);
      t.equal(await page.evaluate('document.documentElement.scrollWidth'), width);
    }
  }
});

t.test('every route is there, with its parameters and answers, and its links lead somewhere', async (t) => {
  const page = await open();
  const document = openApiDocument(routes, '/');
  for (const { path, operationId, parameters = [], problems } of routes) {
    const text = await page.locator(`#${operationId}`).innerText();
    for (const seen of [path, ...parameters.map(({ name }) => name), ...problems])
      t.ok(text.includes(seen), `${operationId} shows ${seen}`);
  }
  const broken = await page.evaluate(
    '[...document.querySelectorAll("a[href^=\\"#\\"]")].map((a) => a.hash.slice(1)).filter((id) => !document.getElementById(id))',
  );
  t.same(broken, []);
  await page.getByRole('link', { name: 'RunRecord' }).first().click();
  t.match(page.url(), /#schema-RunRecord$/);
  await page.getByText('RunList', { exact: true }).last().click();
  t.ok(await page.getByRole('group', { name: 'Schema RunList' }).isVisible());
  await page.getByRole('link', { name: 'openapi.json', exact: true }).click();
  t.equal(new URL(page.url()).pathname, '/waybill/openapi.json');
  t.ok(Object.keys(document.paths).length > 5);
});

t.test('what a description holds stays text', async (t) => {
  const attack = '<img src=x onerror=alert(1)> `</code><script>x</script>`';
  const { html } = renderApiPage(
    openApiDocument([{ ...routes[0]!, summary: attack, description: attack }], '/'),
  );
  t.notMatch(html, /<img|<script/);
});
