import t from 'tap';
import { startApi } from '../harness.ts';

async function pageAt(path: string): Promise<string> {
  const { origin } = await startApi(t, { http: { basePath: '/waybill/' } });
  const response = await fetch(`${origin}/waybill/${path}`, { headers: { accept: 'text/html' } });
  t.equal(response.status, 400);
  return response.text();
}

t.test('names the parameter, its value and the valid ones, and links to the page without it', async (t) => {
  const html = await pageAt('runs/none?wait=soon');
  t.match(html, '<h1>Invalid value for <code>wait</code></h1>');
  t.match(html, '<code>soon</code> is not valid. <code>wait</code> must be a whole number from 0 to 60.');
  t.match(html, '<a class="button primary" href="?">Open without the <code>wait</code> parameter</a>');
  t.notMatch(html, 'GET /openapi.json');
});

t.test('keeps the other parameters in the link, and escapes names and values', async (t) => {
  const html = await pageAt('runs/none?%3Cb%3E=%22%3E%3Ci%3E&colour=red&wait=5');
  t.match(html, '<h1>Invalid parameters</h1>');
  t.match(html, '<code>&lt;b&gt;=&#34;&gt;&lt;i&gt;</code>');
  t.match(html, '<a class="button primary" href="?wait=5">Open without these parameters</a>');
  t.notMatch(html, '<i>');
});

t.test('says that a parameter is unknown', async (t) => {
  t.match(await pageAt('runs/none?colour=red'), '<h1>Unknown parameter</h1>');
});

t.test('shortens a long value', async (t) => {
  const html = await pageAt(`runs/none?wait=${'x'.repeat(200)}`);
  t.match(html, `<code>${'x'.repeat(80)}…</code> is not valid`);
  t.notMatch(html, 'x'.repeat(81));
});
