import { consoleTokens, logIn, startConsole } from './console-daemon.ts';
import type { PageSet } from './page-sets.ts';

/** The console with runs that published, one that could not, a plan and releases. */
export const consolePages: PageSet = {
  name: 'console',
  start: async (t) => {
    const console = await startConsole(t);
    for (let index = 0; index < 4; index++)
      await console.publish(
        { 'index.html': `version ${index}`, [`notes/day-${index}.txt`]: 'x'.repeat(1000 * (index + 1)) },
        { created: `2026-11-2${index}T01:02:03Z`, name: `session-${index % 2}` },
      );
    for (const pipeline of ['library', 'library', 'blocked']) await console.start(pipeline);
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
        await page.locator('.steps').waitFor();
      },
    },
    {
      name: 'console-failed-run',
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
      prepare: async (page) => {
        await page.getByRole('button', { name: 'Make a plan' }).click();
        await page.getByRole('button', { name: 'Plan again' }).waitFor();
      },
    },
    { name: 'console-upload', path: 'console/pipelines/maps/upload', inDocs: true },
    { name: 'console-trends', path: 'console/pipelines/maps/trends', inDocs: true },
    { name: 'console-denied', path: 'console/admin', status: 403 },
  ],
};

/** What only whoever runs the daemon sees. */
export const adminPages: PageSet = {
  name: 'console of the admin',
  start: async (t) => (await startConsole(t)).base,
  enter: (page, base) => logIn(page, base, consoleTokens.admin),
  pages: [
    { name: 'console-admin', path: 'console/admin', inDocs: true },
    { name: 'console-admin-pipeline', path: 'console/pipelines/secret' },
  ],
};

/** Before anybody is logged in. */
export const loginPages: PageSet = {
  name: 'console before the login',
  start: async (t) => (await startConsole(t)).base,
  pages: [{ name: 'console-login', path: 'console/login', inDocs: true }],
};
