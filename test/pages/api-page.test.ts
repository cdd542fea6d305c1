import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import t from 'tap';
import { apiPage } from '../../src/api/openapi/api-page.ts';
import { openApiDocument } from '../../src/api/openapi/document.ts';
import { renderPage } from '../../src/api/pages/render-page.ts';
import { siteOf } from '../../src/api/pages/site.ts';
import { daemonRoutes as routes } from '../../src/cli/daemon/daemon-app.ts';
import { readerRoutes } from '../../src/weather/reader-app.ts';
import { startApi, tokens } from '../api/harness.ts';
import { startChromium } from '../services/chromium.ts';

const run = promisify(execFile);
let browser: Browser;
let url = '';
let base = '';
t.before(async () => {
  browser = await startChromium();
  const api = await startApi(t, { http: { basePath: '/waybill/' } });
  base = `${api.origin}/waybill/`;
  url = `${base}docs`;
});
t.teardown(() => browser.close());

async function open(options: Parameters<Browser['newPage']>[0] = {}, hash = ''): Promise<Page> {
  const page = await browser.newPage(options);
  t.teardown(() => page.close());
  await page.goto(`${url}${hash}`);
  return page;
}

t.test('the contents list the requests of the group in view, or those that match the filter', async (t) => {
  const page = await open({ viewport: { width: 1280, height: 900 } }, '#getRun');
  const entries = page.locator('.contents li li a:visible');
  t.ok((await entries.allInnerTexts()).includes('Get a run'));
  t.notOk((await entries.allInnerTexts()).includes('Upload a bundle'));
  await page.getByLabel('Filter requests').fill('upload a bundle');
  t.match((await entries.allInnerTexts()).slice(2), ['Upload a bundle', 'Upload a bundle from a form']);
});

t.test('without script the page is readable, initially collapsed, and shows its contents', async (t) => {
  const page = await open({ javaScriptEnabled: false, viewport: { width: 1280, height: 900 } });
  t.ok(
    await page.locator('.contents').getByRole('link', { name: 'Upload a bundle', exact: true }).isVisible(),
  );
  const height = (await page.locator('main').boundingBox())!.height;
  t.ok(height < 12_000, `${height} pixels, previously 22,500`);
  await page.locator('#uploadBundle > summary').click();
  t.match(
    await page.locator('#uploadBundle').innerText(),
    /curl "\$WAYBILL\/v1\/pipelines\/\$PIPELINE_ID\/upload" \\\n  -H "Authorization: Bearer \$WAYBILL_TOKEN" \\\n.*\n  --data-binary @bundle.tar$/m,
  );
});

t.test('tries a read request in the page, and shows status, headers and body of the response', async (t) => {
  const page = await open({}, '#listRuns');
  await page.locator('#listRuns').getByRole('button', { name: 'Try it' }).click();
  await page.locator('#listRuns').getByLabel('pipeline_id (path)').fill('maps');
  await page.locator('#listRuns').getByLabel('Token').fill(tokens.maps);
  await page.locator('#listRuns').getByRole('button', { name: 'Send' }).click();
  const answer = page.locator('#listRuns').getByLabel('Response', { exact: true });
  await answer.getByText('"runs"').waitFor();
  t.match(await answer.textContent(), /^200 OK\n(.+\n)*x-request-id: .+\n(.+\n)*\n\{/);
  await page.locator('#listRuns').getByLabel('Token').fill('not-a-token-of-anybody');
  await page.locator('#listRuns').getByRole('button', { name: 'Send' }).click();
  await answer.getByText('unauthorized').waitFor();
  t.match(await answer.textContent(), /^401/);
});

t.test('a request with a body can be sent: typed JSON, and files, raw or in a form', async (t) => {
  const page = await open({}, '#validateSceneMap');
  const validate = page.locator('#validateSceneMap');
  await validate.getByRole('button', { name: 'Try it' }).click();
  await validate.getByLabel('JSON', { exact: true }).fill('{"scenes": 7}');
  await validate.getByRole('button', { name: 'Send' }).click();
  const answer = validate.getByLabel('Response', { exact: true });
  await answer.getByText('"findings"').waitFor();
  t.match(await answer.textContent(), '"/scenes"');

  await validate.getByLabel('Content-Type').selectOption('multipart/form-data');
  t.equal(await validate.getByLabel('JSON', { exact: true }).count(), 0);
  await validate.getByLabel('file', { exact: true }).setInputFiles({
    ...{ name: 'map.json', mimeType: 'application/json' },
    buffer: await readFile('examples/scene-maps/session-42-findings.json'),
  });
  await validate.getByRole('button', { name: 'Send' }).click();
  await answer.getByText('"valid": true').waitFor();
  t.match(await answer.textContent(), /^200 OK/);

  await page.goto(`${url}#uploadBundle`);
  const upload = page.locator('#uploadBundle');
  await upload.getByRole('button', { name: 'Try it' }).click();
  await upload.getByLabel('pipeline_id (path)').fill('maps');
  await upload.getByLabel('Token').fill(tokens.maps);
  const seen = page.waitForRequest((request) => request.url().endsWith('/pipelines/maps/upload'));
  await upload.getByLabel('Content-Type').selectOption('application/gzip');
  await upload
    .getByLabel('File', { exact: true })
    .setInputFiles({ name: 'a.tar.gz', mimeType: '', buffer: Buffer.from('no archive') });
  await upload.getByRole('button', { name: 'Send' }).click();
  t.equal(await (await seen).headerValue('content-type'), 'application/gzip');
  const accepted = upload.getByLabel('Response', { exact: true });
  await accepted.getByText('x-request-id').waitFor();
  // The bundle is staged by a stub, which accepts any bytes.
  t.match(await accepted.textContent(), /^202 Accepted/);
});

t.test('every request that ends can be tried, and axe accepts every form', async (t) => {
  const page = await open({ viewport: { width: 360, height: 900 } });
  await page.evaluate('for (const each of document.querySelectorAll(".tag, .operation")) each.open = true');
  for (const { operationId, path } of routes)
    t.equal(
      await page.locator(`#${operationId}`).getByRole('button', { name: 'Try it' }).count(),
      path.endsWith('/events') ? 0 : 1,
      operationId,
    );
  await page.evaluate('for (const each of document.querySelectorAll(".foot > .button")) each.click()');
  t.equal(await page.getByRole('button', { name: 'Try it' }).count(), 0);
  t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360);
  await page.evaluate(
    `${await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')};undefined`,
  );
  const found = await page.evaluate(
    'axe.run("form").then(({ violations }) => violations.map(({ id }) => id))',
  );
  t.same(found, []);
});

t.test('every route is there, with its parameters and answers, and all links work', async (t) => {
  const page = await open();
  const document = openApiDocument(routes, '/');
  for (const { path, operationId, parameters = [], problems } of routes) {
    const text = await page.locator(`#${operationId}`).textContent();
    for (const seen of [path, ...parameters.map(({ name }) => name), ...problems])
      t.ok(text?.includes(seen), `${operationId} shows ${seen}`);
  }
  const broken = await page.evaluate(
    '[...document.querySelectorAll("a[href^=\\"#\\"]")].map((a) => a.hash.slice(1)).filter((id) => !document.getElementById(id))',
  );
  t.same(broken, []);
  await page.locator('#getRun > summary').click();
  await page.locator('#getRun').getByRole('link', { name: 'RunRecord' }).first().click();
  t.match(page.url(), /#schema-RunRecord$/);
  await page.getByText('RunList', { exact: true }).last().click();
  t.ok(await page.getByRole('group', { name: 'Schema RunList' }).isVisible());
  await page.getByRole('link', { name: 'openapi.json', exact: true }).click();
  t.equal(new URL(page.url()).pathname, '/waybill/openapi.json');
  t.ok(Object.keys(document.paths).length > 5);
});

t.test('schemas have their parts, and a link to a part opens both', async (t) => {
  const page = await open();
  t.notOk(await page.locator('#schema-RunRecordError').isVisible());
  await page.goto(`${url}#schema-RunRecordError`);
  t.ok(await page.getByRole('group', { name: 'Schema RunRecordError' }).isVisible());
  const owners = await page.evaluate(`[...document.querySelectorAll('details details[id^=schema-]')]
    .map(({ id, parentElement }) => [parentElement.id, id])
    .filter(([owner, id]) => !id.startsWith(owner))`);
  t.same(owners, []);
  const silent = await page.evaluate(`[...document.querySelectorAll('.schemas > details')]
    .filter((one) => one.querySelector('.inside').textContent === '')
    .map(({ id }) => id)`);
  t.same(silent, [], 'each schema has a description, or the requests that use it');
  t.equal(await page.locator('.schemas > #schema-ReleaseDiff > #schema-ReleaseDiffFinding').count(), 1);
});

t.test('the example of a dry run says that it is one', async (t) => {
  const page = await open();
  await page.locator('#uploadBundle > summary').click();
  const example = page.getByRole('group', { name: 'Example of the response 200 of uploadBundle' });
  t.match(await example.innerText(), /"dry_run": true/);
});

t.test('the first example works as copied from the page', async (t) => {
  const page = await open();
  const example = await page.getByLabel('First request').innerText();
  t.match(example, `WAYBILL=${base.slice(0, -1)}\n`);
  const { stdout } = await run('sh', ['-ec', `${example} --fail --silent`]);
  t.match(JSON.parse(stdout), { status: 'ok' });
  t.match(JSON.parse(await page.getByLabel('Response of /healthz').innerText()), { status: 'ok' });
});

t.test('on a phone the groups are closed; a link or the filter opens them', async (t) => {
  const page = await open({ viewport: { width: 360, height: 900 } });
  const upload = page.locator('#uploadBundle > summary');
  t.notOk(await upload.isVisible());
  t.match(await page.locator('.tag > summary').first().innerText(), /^Uploads\s+\d+ requests$/i);
  await page.getByRole('link', { name: 'Upload a bundle', exact: true }).click();
  t.ok(await upload.isVisible());
  await page.locator('#uploadBundle').getByRole('link', { name: 'Back to the list of requests' }).click();
  t.match(page.url(), /#tag-uploads$/);
  t.notOk(await page.locator('#getAlert > summary').isVisible());
  await page.getByLabel('Filter requests').fill('alert');
  t.ok(await page.locator('#getAlert > summary').isVisible());
  t.notOk(await upload.isVisible());
});

t.test('methods have colors, and paths break only after a slash', async (t) => {
  const page = await open({ viewport: { width: 360, height: 900 } });
  await page.evaluate('for (const each of document.querySelectorAll(".tag")) each.open = true');
  const colorOf = (id: string): Promise<unknown> =>
    page.evaluate(`getComputedStyle(document.querySelector('#${id} .method')).color`);
  const colors = await Promise.all(['getRun', 'uploadBundle', 'sendUpload', 'removeUpload'].map(colorOf));
  t.equal(new Set(colors).size, colors.length);
  const broken = await page.evaluate(`[...document.querySelectorAll('.path > span')]
    .filter((part) => part.getClientRects().length > 1)
    .map(({ textContent }) => textContent)`);
  t.same(broken, []);
});

t.test('each request links its errors, and can be tried next to its example', async (t) => {
  const page = await open({}, '#getRun');
  await page.locator('#getRun').getByRole('button', { name: 'Try it' }).click();
  await page
    .locator('#getRun')
    .getByText(/^Errors \(\d+\)$/)
    .click();
  await page.locator('#getRun').getByRole('link', { name: 'run_not_found' }).click();
  t.match(page.url(), /#error-run_not_found$/);
  t.ok(await page.locator('#error-run_not_found').isVisible(), 'the link opens the codes of its status');
  t.match(await page.locator('.rules').innerText(), /On every path\s+404 not_found/);
  t.match(await page.locator('#status-404 > summary').innerText(), /^404\s+Not Found/);
  t.ok(await page.locator('#error-not_found').isVisible(), 'errors of every path are listed, too');
  const order = await page.evaluate(
    `[...document.querySelectorAll('#getRun :is(.input, .example pre, button.primary, .answer, .problems)')]
      .map(({ className }) => className.split(' ')[0])`,
  );
  t.same(order, ['code', 'input', 'input', 'input', 'input', 'button', 'code', 'problems']);
});

t.test('the first example of the weather reader requests one of its own paths', async (t) => {
  const site = siteOf({ http: { basePath: '/' } as Parameters<typeof siteOf>[0]['http'] });
  const html = renderPage(site, apiPage(openApiDocument(readerRoutes, '/')));
  const path = /\$WAYBILL(\/[a-z.]+)"/.exec(html)?.[1];
  t.ok(
    readerRoutes.some((route) => route.path === path),
    String(path),
  );
});

t.test('descriptions stay text', async (t) => {
  const attack = '<img src=x onerror=alert(1)> `</code><script>x</script>`';
  const document = openApiDocument([{ ...routes[0]!, summary: attack, description: attack }], '/');
  const site = siteOf({ http: { basePath: '/' } as Parameters<typeof siteOf>[0]['http'] });
  const html = renderPage(site, apiPage(document));
  t.notMatch(html, /<img|<script>/);
});
