import { execFile } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { join } from 'node:path';
import { XMLParser } from 'fast-xml-parser';
import t from 'tap';
import { renderJson } from '../../../../src/core/weather/render/json.ts';
import { createTextRenderer } from '../../../../src/core/weather/render/text.ts';
import { textHelpers } from '../../../../src/core/weather/render/text-helpers.ts';
import { renderXml } from '../../../../src/core/weather/render/xml.ts';
import { xmllint } from '../../../services/xmllint.ts';

t.test('JSON is the envelope and nothing else', (t) => {
  t.equal(renderJson(null), '{"data":null}');
  t.equal(renderJson({ a: null }), '{"data":{"a":null}}');
  t.end();
});

t.test('XML keeps nulls, lists, markup and GeoJSON apart', async (t) => {
  const geometry = { type: 'Point', coordinates: [-74, 40.5] };
  const itemNames = { zones: 'zone', clouds: 'cloud' };
  const xml = renderXml(
    { gone: null, zones: ['NYZ072', '<&>"\''], clouds: [], empty: '', geometry },
    itemNames,
  );
  t.equal(await xmllint(xml), '');
  t.match(xml, '<gone xsi:nil="true"/>');
  t.match(xml, '<zones><zone>NYZ072</zone>');
  const read = new XMLParser({ ignoreAttributes: false, parseTagValue: false }).parse(xml) as {
    response: { data: { zones: { zone: string[] }; geometry: Record<string, string> } };
  };
  t.equal(read.response.data.zones.zone[1], '<&>"\'');
  t.equal(read.response.data.geometry['@_mediaType'], 'application/geo+json');
  t.same(JSON.parse(read.response.data.geometry['#text'] ?? ''), geometry);
  t.equal(await xmllint(renderXml(null, {})), '');
  t.throws(() => renderXml({ zones: [] }, {}), /"zones" have no name/, 'no item goes without its name');
});

t.test('characters that XML 1.0 forbids are dropped, all others stay', async (t) => {
  const forbidden = '\0\x01\x03\x08\x0b\x0c\x1f\udfff\ufffe\ud800\uffff';
  const xml = renderXml({ text: `a${forbidden}b\t\nñ𝄞 ]]>` }, {});
  t.equal(await xmllint(xml), '');
  t.match(xml, '<text>ab\t\nñ𝄞 ]]&gt;</text>');
});

t.test(
  'a template is compiled again when its file changes, and told apart when missing or failing',
  async (t) => {
    const directory = t.testdir({ 'observations.txt.tmpl': '<%= upper("a & b") %>' });
    const file = join(directory, 'observations.txt.tmpl');
    const renderer = createTextRenderer(directory);
    const request = { endpoint: '/observations', parameters: { units: 'si' } };
    const text = (): Promise<string> => renderer.render('observations', null, request);
    t.equal(await text(), 'A & B', 'nothing is escaped');
    await writeFile(file, '<%= request.parameters.units %> <%= data %>|');
    t.equal(await text(), 'si |');
    await writeFile(file, '<% throw new Error("no") %>');
    await t.rejects(text(), { code: 'template_error' });
    await writeFile(file, '<% if ( %>');
    await t.rejects(text(), { code: 'template_error' });
    await rm(file);
    await t.rejects(text(), { code: 'unsupported_format' });
    await writeFile(file, 'back');
    t.equal(await text(), 'back');
    await rm(file);
    await promisify(execFile)('mkfifo', [file]);
    await t.rejects(
      text(),
      { code: 'unsupported_format', cause: /regular file/ },
      'a pipe is not waited for',
    );
  },
);

t.test('helpers say -- for what is not known', (t) => {
  const { num, time, compass, wrap, list, upper } = textHelpers;
  t.same([num(null), time(null), compass(null), wrap(null), list([]), upper(null)], Array(6).fill('--'));
  t.equal(num(1.5, 'mm'), '1.5 mm');
  t.equal(num(50, '%'), '50%');
  t.equal(num(2, '', 1), '2.0');
  t.same([0, 11, 12, 348, 349, 360].map(compass), ['N', 'N', 'NNE', 'NNW', 'N', 'N']);
  t.equal(wrap('aaa bbb ccc\n\n  ddd', 7, ' '), ' aaa\n bbb\n ccc\n\n ddd');
  t.equal(wrap('x'.repeat(9), 4), 'x'.repeat(9));
  t.end();
});

t.test('the hour that happens twice is told by its zone', (t) => {
  const { time } = textHelpers;
  t.equal(time('2026-11-01T05:15:00Z', 'America/New_York'), 'Sun 01 Nov 2026 01:15 EDT');
  t.equal(time('2026-11-01T06:15:00Z', 'America/New_York'), 'Sun 01 Nov 2026 01:15 EST');
  t.equal(time('2026-01-20T00:05:00Z', 'UTC', 'hour'), '00:05');
  t.end();
});
