import t from 'tap';
import { statusOf } from '../../src/api/http/answer/error-status.ts';
import { publicCodes } from '../../src/api/openapi/components.ts';
import { wordsOf } from '../../src/api/pages/problem-words.ts';
import { startApi } from './harness.ts';

t.test('every problem has words for people, without codes, settings or routes', (t) => {
  for (const code of publicCodes) {
    const { heading, text } = wordsOf({ code, status: statusOf[code], title: 'Some Status' });
    t.match(heading, /^[A-Z][^_.]+$/, code);
    t.match(text, /^[A-Z].*\.$/, code);
    t.notMatch(text, /_|\bGET\b|\bPOST\b|server\./, code);
  }
  t.end();
});

t.test('the page of a problem leads to the parts of the site', async (t) => {
  const { origin } = await startApi(t, { http: { basePath: '/waybill/' } });
  const response = await fetch(`${origin}/waybill/nowhere`, { headers: { accept: 'text/html' } });
  const html = await response.text();
  t.match(html, /<h1>Page not found<\/h1>/);
  for (const path of ['console', 'console/runs', 'docs', '']) {
    const style = path === '' ? 'brand' : path === 'console' ? 'button primary' : 'button';
    t.match(html, `<a class="${style}" href="/waybill/${path}">`);
  }
});
