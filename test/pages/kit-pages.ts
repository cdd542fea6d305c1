import type { Test } from 'tap';
import { startApi } from '../api/harness.ts';
import type { PageSet } from './page-sets.ts';

/** Landing page, problem pages and the reference of the API. */
export const kitPages: PageSet = {
  name: 'kit',
  start: async (t) => {
    const { origin } = await startApi(t as Test, { http: { basePath: '/waybill/' } });
    return `${origin}/waybill/`;
  },
  pages: [
    { name: 'landing', path: '', inDocs: true },
    { name: 'api', path: 'docs', inDocs: true },
    {
      name: 'api-opened',
      path: 'docs#listRuns',
      prepare: async (page) => {
        await page.locator('#listRuns').getByRole('button', { name: 'Try it' }).click();
        await page.evaluate('document.querySelector(".tag:has(#uploadBundle)").open = true');
        await page.locator('#uploadBundle > summary').click();
        await page.evaluate('scrollTo(0, 0)');
      },
    },
    { name: 'problem', path: 'nowhere', status: 404, inDocs: true },
    { name: 'problem-of-a-run', path: 'runs/none', status: 404 },
    { name: 'problem-of-a-parameter', path: 'runs/none?wait=soon', status: 400 },
  ],
};
