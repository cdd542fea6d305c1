import t from 'tap';
import { statusOf } from '../../../src/api/http/answer/error-status.ts';
import { publicCodes } from '../../../src/api/openapi/components.ts';
import { consolePlaceOf, namedWordsOf, wordsOf } from '../../../src/api/pages/problem-words.ts';
import type { ErrorCode } from '../../../src/core/lib/error-codes.ts';
import { startApi } from '../harness.ts';

t.test('every problem has a text without codes, settings or routes', (t) => {
  for (const code of publicCodes) {
    const { heading, text } = wordsOf({ code, status: statusOf[code], title: 'Some Status' });
    t.match(heading, /^[A-Z][^_.]+$/, code);
    t.match(text, /^[A-Z].*\.$/, code);
    t.notMatch(text, /_|\bGET\b|\bPOST\b|server\./, code);
  }
  t.end();
});

t.test('the page of a problem names the address and links to other pages', async (t) => {
  const { origin } = await startApi(t, { http: { basePath: '/waybill/' } });
  const response = await fetch(`${origin}/waybill/nowhere`, { headers: { accept: 'text/html' } });
  const html = await response.text();
  t.match(html, /<h1>Page not found<\/h1>/);
  for (const link of [
    '<a class="button primary" href="/waybill/console">Go to Console',
    '<a href="/waybill/console/runs">Runs',
    '<a href="/waybill/docs">API',
    '<a class="brand" href="/waybill/">',
    '<p>Nothing is at <code>/waybill/nowhere</code>.',
    '<dd><code>/waybill/nowhere</code></dd>',
  ])
    t.match(html, link);
  const long = await fetch(`${origin}/waybill/${'x'.repeat(200)}`, { headers: { accept: 'text/html' } });
  t.match(await long.text(), '<p>Nothing is at this address.');
});

t.test('the text names a missing thing only if its name is plain', (t) => {
  const textAt = (code: ErrorCode, path: string): string =>
    namedWordsOf({ code, status: 404, title: 'Not Found' }, path).text;
  t.match(textAt('run_not_found', '/waybill/console/runs/none'), 'Run `none` does not exist');
  t.match(textAt('run_not_found', '/waybill/runs/none/events'), 'Run `none` does not exist');
  t.match(textAt('run_not_found', '/waybill/runs/%3Cb%3E'), 'This run does not exist');
  const pipeline = '/waybill/console/pipelines/none';
  t.match(textAt('pipeline_not_found', `${pipeline}/upload`), 'No pipeline is called `none`.');
  t.match(textAt('pipeline_not_found', '/waybill/console/pipelines/%22'), 'No pipeline has this name.');
  t.match(textAt('destination_not_found', `${pipeline}/destinations/web`), 'has no destination `web`.');
  t.match(textAt('station_not_found', '/weather/stations/KZZZ'), 'No weather station is called `KZZZ`');
  t.match(textAt('station_not_found', `/weather/stations/${'Z'.repeat(65)}`), 'No weather station has this');
  t.end();
});

t.test('a refused page of the console has a name if its id is plain', (t) => {
  t.equal(consolePlaceOf('/waybill/console/admin'), 'Daemon');
  t.equal(consolePlaceOf('/console/admin/reload'), 'Reload configuration');
  t.equal(consolePlaceOf('/console/pipelines/maps/upload'), 'Upload to maps');
  t.equal(consolePlaceOf('/console/pipelines/maps/destinations/web'), 'Pipeline maps');
  t.equal(consolePlaceOf('/console/pipelines/%3Cb%3E'), null);
  t.equal(consolePlaceOf('/v1/pipelines/maps'), null);
  t.end();
});
