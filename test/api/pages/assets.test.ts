import { readFileSync } from 'node:fs';
import t from 'tap';
import { startApi } from '../harness.ts';

t.test('the stylesheet names fonts that are served as they are, and may be cached forever', async (t) => {
  const { origin } = await startApi(t, { http: { basePath: '/waybill/' } });
  const page = await fetch(`${origin}/waybill/docs`);
  t.match(page.headers.get('content-security-policy'), "font-src 'self'");
  const [, sheet] = /href="([^"]+\/waybill\.[0-9a-f]+\.css)"/.exec(await page.text()) ?? [];
  const sheetUrl = new URL(sheet ?? 'none', origin);
  const css = await (await fetch(sheetUrl)).text();
  const fonts = [...css.matchAll(/url\('([^']+)'\)/g)].map(([, name = '']) => name);
  t.equal(fonts.length, 2);
  for (const name of fonts) {
    const response = await fetch(new URL(name, sheetUrl), { headers: { 'accept-encoding': 'gzip, br' } });
    t.equal(response.status, 200, name);
    t.equal(response.headers.get('content-type'), 'font/woff2');
    t.equal(response.headers.get('content-encoding'), null, 'is not compressed again');
    t.match(response.headers.get('cache-control'), 'immutable');
    const original = readFileSync(`templates/fonts/${name.replace(/\.[0-9a-f]{16}/, '')}`);
    t.ok(Buffer.from(await response.arrayBuffer()).equals(original), `${name} has its bytes`);
  }
});
