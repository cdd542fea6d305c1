import t from 'tap';
import { startApi } from '../harness.ts';

t.test('the landing page links to the parts, the login and the health check', async (t) => {
  const { origin } = await startApi(t, { http: { basePath: '/waybill/' } });
  const response = await fetch(`${origin}/waybill/`, { headers: { accept: 'text/html' } });
  const html = await response.text();
  for (const link of [
    '<a class="button primary" href="/waybill/console">Open Console</a>',
    '<a href="/waybill/docs">API</a>',
    '<a href="/waybill/console/login">Log in</a>',
    '<a class="badge success" id="state" href="/waybill/healthz">',
  ])
    t.ok(html.includes(link), link);

  const without = await startApi(t, { console: null });
  const page = await fetch(without.origin, { headers: { accept: 'text/html' } });
  t.notMatch(await page.text(), 'Log in</a>', 'a daemon without a console has no login');
});
