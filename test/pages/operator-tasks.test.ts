import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Browser, Locator, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { startChromium } from '../services/chromium.ts';
import { type ConsoleDaemon, consoleTokens, logIn, startConsole } from './console-daemon.ts';

/*
 * Five tasks of an operator who sees the console for the first time, done by visible names only. Each counts
 * its clicks and pages, so that a longer way is noticed.
 */

let browser: Browser;
let daemon: ConsoleDaemon;
t.setTimeout(0);
t.before(async () => {
  browser = await startChromium();
  daemon = await startConsole(t);
  for (const day of ['24', '25', '26'])
    await daemon.publish({ 'index.html': `as of ${day}` }, { created: `2026-11-${day}T01:02:03Z` });
});
t.teardown(() => browser.close());

/** A visitor who clicks, and counts. */
interface Operator {
  page: Page;
  click: (target: Locator) => Promise<void>;
  /** Reports the clicks, and the pages after the overview. */
  effort: () => { clicks: number; pages: number };
}

async function operator(t: Test, token: string = consoleTokens.operator): Promise<Operator> {
  const context = await browser.newContext();
  t.teardown(() => context.close());
  const page = await context.newPage();
  await logIn(page, daemon.base, token);
  let [clicks, pages] = [0, 0];
  page.on('framenavigated', () => {
    pages++;
  });
  const click = async (target: Locator): Promise<void> => {
    clicks++;
    await target.click();
  };
  return { page, click, effort: () => ({ clicks, pages }) };
}

const link = (place: Page | Locator, name: string): Locator => place.getByRole('link', { name, exact: true });
const textOf = async (place: Locator): Promise<string> => (await place.innerText()).replace(/\s+/g, ' ');

t.test("find out why last night's run failed, and fix it: two clicks and one fix", async (t) => {
  await daemon.start('blocked');
  const { page, click, effort } = await operator(t);
  const attention = page.getByRole('region', { name: '1 pipeline failing' });
  t.match(await textOf(attention), /blocked .* Files in the way\. .* What to do: Move these files away/);
  await click(attention.getByRole('link', { name: 'Open the run of blocked' }));
  const outcome = page.getByRole('region', { name: 'Outcome' });
  t.match(
    await textOf(outcome),
    /Files in the way at full .* Where: full \S+\/public\/full What to do: Move these files away.*To list the files.*waybill run --config waybill\.yml --pipeline blocked --destination full --force --dry-run/,
  );
  // The fix of a destination that contains foreign files.
  rmSync(path.join(daemon.root, 'public/full/index.html'));
  await click(page.getByRole('button', { name: 'Run again' }));
  await page.getByRole('heading', { name: /^Run of .* → full$/ }).waitFor();
  await page.getByText('Run succeeded').waitFor();
  t.same(effort(), { clicks: 2, pages: 2 });
});

t.test('roll back production, and undo it: six clicks', async (t) => {
  const site = path.join(daemon.root, 'public/site/current/index.html');
  const { page, click, effort } = await operator(t);
  await click(link(page, 'maps'));
  await click(link(page, 'site'));
  await click(link(page, 'Releases'));
  const row = page.getByRole('row').filter({ hasText: 'previous' });
  await click(row.getByRole('link', { name: 'Roll back' }));
  const question = page.getByRole('region', { name: 'Roll back site to session-1 of' });
  t.match(
    await textOf(question),
    /Readers get now .* current since .* After the rollback .* became current .* Undo With one click/,
  );
  await click(question.getByRole('button', { name: 'Roll back site' }));
  await page.getByText('Rolled back: readers have the chosen release now.').waitFor();
  t.equal(readFileSync(site, 'utf8'), 'as of 25');
  await page.setViewportSize({ width: 360, height: 900 });
  t.equal(
    await page.evaluate('document.documentElement.scrollWidth'),
    360,
    'a phone does not scroll sideways',
  );
  await click(page.getByRole('button', { name: 'Undo' }));
  await page.getByText('Promoted: readers have the chosen release now.').waitFor();
  t.equal(readFileSync(site, 'utf8'), 'as of 26');
  t.same(effort(), { clicks: 6, pages: 6 });
});

t.test('publish a folder: three clicks and the choice of the folder', async (t) => {
  const folder = path.join(mkdtempSync(path.join(daemon.root, 'home-')), 'harbour');
  mkdirSync(path.join(folder, 'notes'), { recursive: true });
  writeFileSync(path.join(folder, 'index.html'), 'the harbour');
  writeFileSync(path.join(folder, 'notes/tide.txt'), 'high at noon');
  const { page, click, effort } = await operator(t);
  await click(link(page, 'maps'));
  await click(link(page, 'Upload a bundle'));
  await page.getByLabel('Choose a directory').setInputFiles(folder);
  await page.getByRole('status').filter({ hasText: '2 files' }).waitFor();
  t.equal(await page.getByLabel('Name').inputValue(), 'harbour');
  await click(page.getByRole('button', { name: 'Upload', exact: true }));
  await page.getByText('Run succeeded').waitFor();
  const published = path.join(daemon.root, 'public/web/harbour/notes/tide.txt');
  t.equal(readFileSync(published, 'utf8'), 'high at noon');
  t.same(effort(), { clicks: 3, pages: 3 });
});

t.test('find out who published what yesterday: two clicks', async (t) => {
  const { page, click, effort } = await operator(t);
  await click(link(page.getByRole('navigation', { name: 'Main' }), 'Runs'));
  await click(link(page, 'Yesterday'));
  const yesterday = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
  for (const name of ['From (UTC)', 'To (UTC)'])
    t.equal(await page.getByLabel(name, { exact: true }).inputValue(), yesterday);
  await page.getByRole('heading', { name: 'No run matches' }).waitFor();
  t.same(effort(), { clicks: 2, pages: 2 });
  // All runs of this test are from today.
  await click(link(page, 'Today'));
  const row = page.getByRole('row').filter({ hasText: 'session-1' }).first();
  t.match(await textOf(row), /session-1 maps .* succeeded web, site: updated operator, upload/);
});

t.test('add a schedule from the documentation: three clicks and one line', async (t) => {
  const { page, click, effort } = await operator(t, consoleTokens.admin);
  const [line = ''] = /^ *schedule: .*$/m.exec(readFileSync('docs/schedules.md', 'utf8')) ?? [];
  const file = path.join(daemon.root, 'waybill.yml');
  const before = readFileSync(file, 'utf8');
  writeFileSync(file, before.replace('  - id: blocked\n', `  - id: blocked\n    ${line.trim()}\n`));
  await click(link(page, 'Daemon'));
  await click(page.getByRole('button', { name: 'Reload configuration' }));
  await page.getByText('The configuration of the file is in force.').waitFor();
  await click(link(page.getByRole('region', { name: 'Queues' }), 'blocked'));
  const state = await textOf(page.getByRole('region', { name: 'State', exact: true }));
  t.match(state, /Next run in \d+ (h|min) Schedule 30 2 \* \* \*/);
  t.same(effort(), { clicks: 3, pages: 3 });
});
