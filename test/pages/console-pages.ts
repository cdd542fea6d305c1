import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { systemClock } from '../../src/core/lib/clock.ts';
import { type ConsoleDaemon, consoleTokens, logIn, packed, startConsole } from './console-daemon.ts';
import { changeLibrary, earlierRuns, justNow, sessionFiles, startInOrder } from './earlier-runs.ts';
import type { PageSet } from './page-sets.ts';
import { past } from './past.ts';

/** The console with successful runs, a failed run, a plan and releases. */
export const consolePages: PageSet = {
  name: 'console',
  start: async (t) => {
    const console = await startConsole(t);
    const uploads = [74, 50, 27, 3.2].map((hoursAgo, index) => ({
      hoursAgo,
      start: () =>
        console.publish(sessionFiles(index + 7), {
          ...{ created: justNow(), name: `session-${11 + (index % 2)}` },
          token: consoleTokens.ci,
        }),
    }));
    const starts = (
      [
        ['library', 155],
        ['blocked', 131],
        ['library', 48],
        ['blocked', 12],
      ] as const
    ).map(([pipeline, minutesAgo]) => ({
      hoursAgo: minutesAgo / 60,
      start: () => startAndNotify(console, pipeline),
    }));
    await startInOrder([...earlierRuns(console), ...uploads, ...starts]);
    changeLibrary(console);
    return console.base;
  },
  enter: (page, base) => logIn(page, base, consoleTokens.operator),
  pages: [
    { name: 'console-overview', path: 'console', inDocs: true },
    { name: 'console-pipeline', path: 'console/pipelines/maps', inDocs: true },
    {
      name: 'console-run',
      path: 'console/runs?pipeline=maps',
      inDocs: true,
      prepare: async (page) => {
        await page.locator('.runs tbody th a').first().click();
        await page.locator('.outcome').waitFor();
      },
    },
    {
      name: 'console-failed-run',
      inDocs: true,
      path: 'console/runs?pipeline=blocked',
      prepare: async (page) => {
        await page.locator('.runs tbody th a').first().click();
        await page.getByText('What to do').first().waitFor();
      },
    },
    { name: 'console-runs', path: 'console/runs', inDocs: true },
    { name: 'console-destination', path: 'console/pipelines/maps/destinations/web', inDocs: true },
    { name: 'console-releases', path: 'console/pipelines/maps/destinations/site/releases', inDocs: true },
    {
      name: 'console-plan',
      path: 'console/pipelines/library/plan',
      inDocs: true,
      prepare: makePlan,
    },
    {
      name: 'console-failing-plan',
      isState: true,
      path: 'console/pipelines/blocked/plan',
      prepare: makePlan,
    },
    { name: 'console-upload', path: 'console/pipelines/maps/upload', inDocs: true },
    {
      name: 'console-upload-findings',
      isState: true,
      path: 'console/pipelines/maps/upload',
      refused: 422,
      prepare: async (page) => {
        await page.locator('#bundle').setInputFiles({
          ...{ name: 'bundle.tar', mimeType: 'application/x-tar' },
          buffer: await mistakenBundle(),
        });
        await page.getByRole('button', { name: 'Upload', exact: true }).click();
        await page.locator('.manifest .wrong').first().waitFor();
      },
    },
    {
      name: 'console-verified',
      inDocs: true,
      path: 'console/pipelines/maps/destinations/web',
      prepare: async (page) => {
        await page.getByRole('button', { name: 'Verify all files' }).click();
        await page.getByText('as published').first().waitFor();
      },
    },
    {
      name: 'console-releases-compared',
      isState: true,
      path: 'console/pipelines/maps/destinations/site/releases',
      prepare: async (page) => {
        await page.getByRole('link', { name: 'with the current release' }).first().click();
        await page.locator('#compared').waitFor();
      },
    },
    {
      name: 'console-releases-confirmed',
      isState: true,
      path: 'console/pipelines/maps/destinations/site/releases',
      prepare: async (page) => {
        await page.getByRole('link', { name: 'Roll back…' }).first().click();
        await page.locator('#confirm details[open]').waitFor();
      },
    },
    { name: 'console-trends', path: 'console/pipelines/maps/trends', inDocs: true },
    { name: 'console-failing-pipeline', isState: true, path: 'console/pipelines/blocked' },
    { name: 'console-trends-of-failures', isState: true, path: 'console/pipelines/blocked/trends' },
    {
      name: 'console-failed-destination',
      isState: true,
      path: 'console/pipelines/blocked/destinations/full',
    },
    { name: 'console-account', path: 'console/account', inDocs: true },
    { name: 'console-denied', path: 'console/admin', status: 403 },
  ],
};

async function makePlan(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Make a plan' }).click();
  await page.getByRole('button', { name: 'Plan again' }).waitFor();
}

/** Starts a run. Resolves when its failed notification is recorded, if it has one. */
async function startAndNotify(console: ConsoleDaemon, pipeline: string): Promise<void> {
  const { run_id: id, status } = await console.start(pipeline);
  if (status !== 'failed') return;
  while ((await console.follow(id)).failed_deliveries.length === 0) await systemClock.sleep(20);
}

/** A bundle whose manifest lists a missing file. */
async function mistakenBundle(): Promise<Buffer> {
  const root = mkdtempSync(path.join(tmpdir(), 'waybill-mistaken-'));
  const manifest = {
    ...{ schema_version: 1, created: '2026-11-20T01:02:03Z' },
    files: ['index.html', { path: 'maps/harbour.json', size: 5 }, 'notes/left-at-home.txt'],
  };
  try {
    return await packed(
      root,
      { 'index.html': 'x', 'maps/harbour.json': '{}', 'manifest.json': JSON.stringify(manifest, null, 2) },
      { name: 'mistaken', created: manifest.created },
    );
  } finally {
    rmSync(root, { recursive: true });
  }
}

/** A token that may only read tries to start a run, for the audit trail. */
async function refusedStart(base: string): Promise<void> {
  const headers = { authorization: `Bearer ${consoleTokens.guest}` };
  await fetch(`${base}v1/pipelines/library/runs`, { method: 'POST', headers });
}

/** Pages as an administrator sees them. */
export const adminPages: PageSet = {
  name: 'console of the admin',
  start: async (t) => {
    const console = await startConsole(t);
    const token = consoleTokens.ci;
    const options = () => ({ created: justNow(), token, name: 'session-12' });
    for (const [index, hoursAgo] of [98, 74, 50, 26].entries())
      await past(60 * hoursAgo, () => console.publish(sessionFiles(index + 1), options()), 4 + 13 * index);
    await past(155, () => startAndNotify(console, 'library'));
    await past(41, () => startAndNotify(console, 'blocked'));
    await past(35, () => console.pause('maps', 'the disk of the web server is being replaced'));
    await past(9, () => console.accept(sessionFiles(5), options()));
    return console.base;
  },
  enter: async (page, base) => {
    await refusedStart(base);
    await logIn(page, base, consoleTokens.admin);
  },
  pages: [
    { name: 'console-admin', path: 'console/admin', inDocs: true },
    { name: 'console-audit', path: 'console/audit', inDocs: true },
    { name: 'console-audit-empty', isState: true, path: 'console/audit?actor=none' },
    { name: 'console-admin-overview', isState: true, path: 'console' },
    { name: 'console-paused-pipeline', isState: true, path: 'console/pipelines/maps' },
    { name: 'console-trends-of-one-run', isState: true, path: 'console/pipelines/library/trends' },
    { name: 'console-pipeline-without-runs', path: 'console/pipelines/secret' },
    { name: 'console-trends-without-runs', isState: true, path: 'console/pipelines/secret/trends' },
    {
      name: 'console-destination-without-anything',
      isState: true,
      path: 'console/pipelines/secret/destinations/vault',
    },
  ],
};

/** Names that are long, or written from right to left, and empty or very large contents. */
export const oddPages: PageSet = {
  name: 'console with odd names',
  start: async (t) => {
    const console = await startConsole(t);
    const long = 'a-name-that-somebody-has-made-of-many-words-because-nobody-said-that-it-should-be-short';
    const files = {
      'ملاحظات/قصة-المدينة.txt': 'نص',
      [`${long}/${long}.txt`]: 'x'.repeat(3_000_000),
      'ЖУРНАЛ/κεφάλαιο.txt': 'empty',
      'empty.txt': '',
    };
    await past(190, () => console.publish(files, { name: long, created: justNow() }));
    await past(14, () => console.publish(files, { name: 'قصة-المدينة', created: justNow() }));
    return console.base;
  },
  enter: (page, base) => logIn(page, base, consoleTokens.operator),
  pages: [
    {
      name: 'console-odd-run',
      isState: true,
      path: 'console/runs',
      prepare: async (page) => {
        await page.locator('.runs tbody th a').first().click();
        await page.locator('.outcome').waitFor();
      },
    },
    { name: 'console-odd-destination', isState: true, path: 'console/pipelines/maps/destinations/web' },
    {
      name: 'console-odd-releases',
      isState: true,
      path: 'console/pipelines/maps/destinations/site/releases',
    },
  ],
};

/** Before the login. */
export const loginPages: PageSet = {
  name: 'console before the login',
  start: async (t) => (await startConsole(t)).base,
  pages: [{ name: 'console-login', path: 'console/login', inDocs: true }],
};
