import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Browser, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { startChromium } from '../services/chromium.ts';
import { type ConsoleDaemon, logIn, startConsole } from './console-daemon.ts';

let browser: Browser;
let daemon: ConsoleDaemon;
t.setTimeout(0);
t.before(async () => {
  browser = await startChromium();
  daemon = await startConsole(t);
});
t.teardown(() => browser.close());

type Files = Readonly<Record<string, string | Buffer>>;

async function openUpload(t: Test): Promise<Page> {
  const context = await browser.newContext();
  t.teardown(() => context.close());
  const page = await context.newPage();
  await logIn(page, daemon.base);
  await page.goto(`${daemon.base}console/pipelines/maps/upload`);
  return page;
}

/** A directory on the machine of the browser. */
function directoryOf(files: Files): string {
  const directory = mkdtempSync(path.join(daemon.root, 'dropped-'));
  for (const [file, bytes] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(directory, file)), { recursive: true });
    writeFileSync(path.join(directory, file), bytes);
  }
  return directory;
}

/** Drops files from disk onto the page, with the events that the system sends to the browser. */
async function drop(page: Page, ...files: string[]): Promise<void> {
  const box = await page.locator('#drop').boundingBox();
  if (box === null) throw new TypeError('there is nowhere to drop anything');
  const at = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  const session = await page.context().newCDPSession(page);
  const data = { items: [], files, dragOperationsMask: 1 };
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const)
    await session.send('Input.dispatchDragEvent', { type, ...at, data });
}

/** Uploads the selection; the page describes it. */
async function send(page: Page): Promise<void> {
  await page.locator('#upload-state', { hasText: 'bytes' }).waitFor();
  await page.getByRole('button', { name: 'Upload', exact: true }).click();
}

/** Uploads the selection, and waits for the end of its run. */
async function published(page: Page): Promise<void> {
  await send(page);
  await page.waitForURL(/done=uploaded/);
  await page.locator('#head').getByText('succeeded').waitFor();
}

/** The files that readers find below a path of the destination, by path. */
function publishedAt(place: string): Map<string, Buffer> {
  const root = path.join(daemon.root, 'public', place);
  const found = readdirSync(root, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  return new Map(
    found.map((one) => {
      const file = path.join(one.parentPath, one.name);
      return [path.relative(root, file), readFileSync(file)];
    }),
  );
}

/** Every byte value, and names outside ASCII; more files than a browser lists in one call. */
function oddFiles(): Files {
  const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, index) => (index * 7 + (index >> 8)) % 256));
  const many = Array.from({ length: 130 }, (_, index) => [`many/file-${index}.txt`, `number ${index}\n`]);
  return {
    'pictures/deep/er/bytes.bin': bytes,
    'empty.txt': '',
    'notes/grüße an alle.txt': 'Grüße, 世界, \u202e and \r\n ends of lines',
    ...(Object.fromEntries(many) as Files),
  };
}

t.test('a dropped directory is published with unchanged bytes', async (t) => {
  const files = oddFiles();
  const manifest = {
    ...{ schema_version: 1, name: 'dropped', created: '2026-11-23T01:02:03Z' },
    files: Object.keys(files),
  };
  const page = await openUpload(t);
  await drop(page, directoryOf({ ...files, 'manifest.json': JSON.stringify(manifest) }));
  await published(page);
  const found = publishedAt('web/dropped');
  for (const [file, bytes] of Object.entries(files))
    t.ok(found.get(file)?.equals(Buffer.from(bytes)), `${file} has its bytes`);
  t.equal(Object.keys(files).length, 133);
});

t.test('a directory without a manifest is published under its name, or another one', async (t) => {
  const files = { 'index.html': 'alone', 'below/picture.bin': Buffer.from([0, 255, 10, 13]) };
  const page = await openUpload(t);
  const directory = directoryOf(files);
  await drop(page, directory);
  await page.locator('#upload-state', { hasText: /: 2 files, 9 bytes$/ }).waitFor();
  const name = page.getByLabel('Name');
  t.equal(await name.inputValue(), path.basename(directory));
  await name.fill('another name');
  await published(page);
  t.same(
    [...publishedAt('web/another name').keys()].filter((file) => file in files).sort(),
    Object.keys(files).sort(),
  );
  const found = publishedAt('site');
  for (const [file, bytes] of Object.entries(files))
    t.ok(
      [...found].some(([at, held]) => at.endsWith(file) && held.equals(Buffer.from(bytes))),
      `${file} has its bytes`,
    );
});

t.test('rejects a zip and an empty directory before anything is sent', async (t) => {
  const page = await openUpload(t);
  const state = page.locator('#upload-state');
  const uploads: string[] = [];
  page.on('request', (request) => {
    if (request.method() === 'POST') uploads.push(request.url());
  });
  for (const [dropped, says] of [
    [
      path.join(directoryOf({ 'site.zip': 'PK' }), 'site.zip'),
      /^site\.zip is not a tar archive\. Unpack it, then choose/,
    ],
    [directoryOf({}), /^There are no files in it\./],
  ] as const) {
    await drop(page, dropped);
    await state.filter({ hasText: says }).waitFor();
    for (const name of ['Upload', 'Plan without publishing'])
      t.notOk(await page.getByRole('button', { name, exact: true }).isVisible(), name);
    t.match(await state.innerText(), says);
  }
  t.same(uploads, []);
});

t.test('checks a directory before it is sent', async (t) => {
  const page = await openUpload(t);
  const uploads: string[] = [];
  page.on('request', (request) => {
    if (request.method() === 'POST') uploads.push(request.url());
  });
  const problem = page.locator('#upload-findings .notice');
  const upload = page.getByRole('button', { name: 'Upload', exact: true });
  for (const [manifest, says] of [
    ['{"files": ', /manifest\.json is not valid JSON/],
    ['{"name": "x"}', /manifest\.json has no list "files"/],
  ] as const) {
    await drop(page, directoryOf({ 'index.html': 'x', 'manifest.json': manifest }));
    await problem.filter({ hasText: says }).waitFor();
    t.notOk(await upload.isVisible());
  }
  await drop(page, directoryOf({ 'index.html': 'x', '.env': 'secret' }));
  await page.locator('#upload-state', { hasText: '1 hidden file is included, for example .env.' }).waitFor();
  await page.getByLabel('Name').fill('../outside');
  await upload.click();
  await problem.filter({ hasText: '"../outside" has the segment ".."' }).waitFor();
  // A pipeline with smaller limits.
  await page.route('**/upload', async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replace(/data-max-\w+="\d+"/g, (one) => one.replace(/\d+/, '1'));
    await route.fulfill({ response, body });
  });
  await page.reload();
  await drop(page, directoryOf({ 'index.html': 'too long', 'b.txt': '' }));
  await problem.filter({ hasText: '8 bytes are more than the limit of 1 bytes' }).waitFor();
  t.match(await problem.innerText(), /2 files are more than the limit of 1/);
  t.notOk(await upload.isVisible());
  t.same(uploads, [], 'nothing was sent');
});

t.test("takes an archive's name from its manifest", async (t) => {
  const page = await openUpload(t);
  const archive = await daemon.archive({ 'a.txt': 'a' }, new Date().toISOString());
  await drop(page, path.join(directoryOf({ 'bundle.tar': archive }), 'bundle.tar'));
  await page.locator('#upload-state', { hasText: 'bundle.tar' }).waitFor();
  t.equal(await page.getByLabel('Name').inputValue(), 'session-1');
  t.ok(await page.getByLabel('Name').isDisabled());
});

t.test('plans a directory before it is uploaded', async (t) => {
  const page = await openUpload(t);
  await drop(page, directoryOf({ 'index.html': 'planned' }));
  await page.getByLabel('Name').fill('planned');
  await page.getByRole('button', { name: 'Plan without publishing' }).click();
  await page.getByRole('heading', { name: 'Plan', exact: true }).waitFor();
  t.match(await page.locator('main').innerText(), /index\.html/);
  t.notOk(existsSync(path.join(daemon.root, 'public/web/planned')));
});

t.test('shows the buttons that send after something is chosen', async (t) => {
  const page = await openUpload(t);
  const upload = page.getByRole('button', { name: 'Upload', exact: true });
  t.notOk(await upload.isVisible());
  t.notOk(await page.getByLabel('Name').isVisible(), 'its value depends on the choice');
  await drop(page, directoryOf({ 'index.html': 'chosen' }));
  await page.locator('#upload-state', { hasText: 'bytes' }).waitFor();
  t.ok(await upload.isVisible());
  t.ok(await upload.isEnabled());
});

t.test('a dropped archive is sent unchanged', async (t) => {
  const files = { 'a.txt': 'of an archive\n'.repeat(999) };
  const directory = directoryOf({
    'bundle.tar.gz': gzipSync(await daemon.archive(files, new Date().toISOString())),
  });
  const page = await openUpload(t);
  await drop(page, path.join(directory, 'bundle.tar.gz'));
  await published(page);
  t.equal(publishedAt('web/session-1').get('a.txt')?.toString(), files['a.txt']);
});

t.test('applies the selected channel to dropped files', async (t) => {
  const page = await openUpload(t);
  await drop(page, directoryOf({ 'index.html': 'dropped for a preview' }));
  await page.getByLabel('Publish for').selectOption('channel preview');
  t.notOk(await page.getByRole('button', { name: 'Upload to channel preview' }).isVisible());
  await send(page);
  await page.waitForURL(/done=uploaded/);
  const id = new URL(page.url()).pathname.split('/').at(-1) ?? '';
  t.match(await daemon.follow(id), { channel: 'preview', status: 'succeeded' });
});

t.test('shows three errors of a bundle, each at its location in the manifest', async (t) => {
  const manifest = JSON.stringify(
    {
      ...{ schema_version: 1, name: 'mistaken', created: '2026-11-23T01:02:03Z' },
      files: [
        'fine.txt',
        { path: 'a.txt', size: 5 },
        { path: 'missing.txt' },
        { path: 'b.txt', digest: `sha256:${'0'.repeat(64)}` },
      ],
    },
    null,
    2,
  );
  const files = { 'fine.txt': 'fine', 'a.txt': 'wrong size', 'b.txt': 'b', 'manifest.json': manifest };
  const page = await openUpload(t);
  await drop(page, directoryOf(files));
  await send(page);
  const wrong = page.locator('.manifest .wrong');
  await wrong.first().waitFor();
  const lines = manifest.split('\n');
  const shown = await page.evaluate<{ number: number; text: string; says: string[] }[]>(`
    [...document.querySelectorAll('.manifest .wrong')].map((one) => ({
      number: Number(one.querySelector('.number').textContent),
      text: one.childNodes[1].textContent,
      says: [...one.querySelectorAll('.says')].map(({ textContent }) => textContent),
    }))`);
  t.comment(JSON.stringify(shown));
  t.equal(shown.length, 3, 'three lines');
  for (const [name, below, what] of [
    ['a.txt', 1, /size|bytes/],
    ['missing.txt', 0, /not in|missing|is not/],
    ['b.txt', 1, /digest/],
  ] as const) {
    // A wrong size or digest is on the line below the path.
    const at = lines.findIndex((line) => line.includes(`"${name}"`)) + below;
    const line = shown.find(({ number }) => number === at + 1);
    t.equal(line?.text, lines[at], `${name}: the line of the manifest`);
    t.equal(line?.says.length, 1, `${name}: one error`);
    t.match(line?.says[0], what, `${name}: the expected error`);
  }
  t.equal(await page.locator('#upload-findings .findings li').count(), 0, 'none is listed twice');
  t.match(await page.locator('#upload-findings').innerText(), /^Not accepted: 3 mistakes in dropped-/);
  t.match(await page.getByText('Choose the directory again').getAttribute('class'), /primary/);
  t.same(
    await page.locator('.manifest .fix').allTextContents(),
    [
      'Correct the size in the manifest, or replace the file.',
      'Add the file, or remove this entry from the manifest.',
      'Correct the digest in the manifest, or replace the file.',
    ],
    'each with its next step',
  );
  t.notOk(await page.getByText('Plan without publishing').isVisible(), 'not a step after a refusal');
  t.same(
    [...publishedAt('web').keys()].filter((file) => file.startsWith('mistaken')),
    [],
  );
});
