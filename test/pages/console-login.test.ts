import type { Page } from 'playwright-core';
import t from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { inProcessRevokedSessions } from '../../src/workers/queue/revoked-sessions.ts';
import { loginWith } from '../api/console/login.ts';
import { startApi } from '../api/harness.ts';
import { startChromium } from '../services/chromium.ts';
import { startOidcProvider } from '../services/oidc-provider.ts';

/*
 * The login with OpenID Connect in Chromium. The console is at `localhost` and the provider at `127.0.0.1`,
 * which are different sites for cookies.
 */
t.setTimeout(0);
t.test('users log in at a provider on another site, see their role, and log out everywhere', async (t) => {
  const browser = await startChromium();
  t.teardown(() => browser.close());
  const revokedSessions = inProcessRevokedSessions({ clock: systemClock });
  const one = await startApi(t, { ports: { identity: { revokedSessions } } });
  const other = await startApi(t, { ports: { identity: { revokedSessions } } });
  const [base, otherBase] = [one, other].map(({ origin }) => `${origin.replace('127.0.0.1', 'localhost')}/`);
  if (base === undefined || otherBase === undefined) throw new TypeError('there are two hosts');
  const redirectUris = [`${base}console/login/callback`];
  const provider = await startOidcProvider(t, 'RS256', { redirectUris });
  const login = loginWith(provider, base, { name: 'Example SSO' });
  for (const api of [one, other]) api.reconfigure((access) => ({ ...access, login }));
  const logIn = async (): Promise<Page> => {
    const context = await browser.newContext();
    t.teardown(() => context.close());
    const page = await context.newPage();
    await page.goto(`${base}console/pipelines/maps`);
    await page.getByRole('link', { name: 'Log in with Example SSO' }).click();
    return page;
  };

  provider.user = { id: 'ada', claims: { groups: ['publishers'] } };
  const page = await logIn();
  await page.waitForURL(`${base}console/pipelines/maps`);
  await page.getByText('Pause…').waitFor();
  await page.goto(`${base}console/pipelines/docs`);
  await page.getByRole('heading', { name: 'docs', level: 1 }).waitFor();
  t.equal(await page.getByText('Pause…').count(), 0, 'a viewer of docs cannot pause it');
  await page.getByRole('link', { name: 'ada (operator)' }).click();
  await page.waitForURL(`${base}console/account`);
  const rows = await page.locator('thead tr, tbody tr').allInnerTexts();
  t.same(
    rows.map((row) => row.split('\t').map((cell) => cell.trim().replace(/\s+/g, ' '))),
    [
      [
        ...['Pipeline', 'Role', 'View', 'Publish', 'Repeat and verify', 'Cancel and pause'],
        'Switch releases',
      ],
      ['maps', 'operator', ...Array.from({ length: 5 }, () => '✓ yes')],
      ['docs', 'viewer', '✓ yes', ...Array.from({ length: 4 }, () => '– no')],
    ],
  );

  const second = await logIn();
  await second.waitForURL(`${base}console/pipelines/maps`);
  await second.goto(`${otherBase}console`);
  await second.waitForURL(`${otherBase}console`);
  await page.getByRole('button', { name: 'Log out in all browsers' }).click();
  await page.getByText('You are logged out in all browsers.').waitFor();
  await second.reload();
  await second.waitForURL(/console\/login/);
  t.pass('the session of another browser at another host has ended');

  provider.user = null;
  const denied = await logIn();
  await denied.getByRole('alert').getByText('The login was cancelled or denied').waitFor();
  await denied.getByLabel('Token').waitFor();
});
