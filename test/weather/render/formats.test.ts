import { execFile } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { getIssues } from '@placemarkio/check-geojson';
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { XMLParser } from 'fast-xml-parser';
import t from 'tap';
import { type ObservationData } from '../../../src/weather/records/observation-fields.ts';
import { observationTable } from '../../../src/weather/records/observation-tables.ts';
import {
  mapGeometry,
  renderCsv,
  renderGeoJson,
  renderJson,
  renderXml,
} from '../../../src/weather/render/formats.ts';
import { textHelpers } from '../../../src/weather/render/text-helpers.ts';
import { createTextRenderer } from '../../../src/weather/render/text-renderer.ts';
import { fields, weatherTable } from '../../../src/weather/values.ts';
import { xmllint } from '../../services/xmllint.ts';

t.test('JSON has only the envelope', (t) => {
  t.equal(renderJson(null), '{"data":null}');
  t.equal(renderJson({ a: null }), '{"data":{"a":null}}');
  t.end();
});

t.test('XML distinguishes nulls, lists, markup and GeoJSON', async (t) => {
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
  t.throws(() => renderXml({ zones: [] }, {}), /"zones" have no name/, 'every item has its name');
});

t.test('drops characters that XML 1.0 forbids, and keeps all others', async (t) => {
  const forbidden = '\0\x01\x03\x08\x0b\x0c\x1f\udfff\ufffe\ud800\uffff';
  const xml = renderXml({ text: `a${forbidden}b\t\nñ𝄞 ]]>` }, {});
  t.equal(await xmllint(xml), '');
  t.match(xml, '<text>ab\t\nñ𝄞 ]]&gt;</text>');
});

t.test(
  'compiles a template again when its file changes, and distinguishes a missing from a failing one',
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
    await t.rejects(text(), { code: 'unsupported_format', cause: /regular file/ }, 'a pipe does not block');
  },
);

t.test('shows -- for unknown values', (t) => {
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

t.test('shows the zone of the hour that occurs twice', (t) => {
  const { time } = textHelpers;
  t.equal(time('2026-11-01T05:15:00Z', 'America/New_York'), 'Sun 01 Nov 2026 01:15 EDT');
  t.equal(time('2026-11-01T06:15:00Z', 'America/New_York'), 'Sun 01 Nov 2026 01:15 EST');
  t.equal(time('2026-01-20T00:05:00Z', 'UTC', 'hour'), '00:05');
  t.equal(time('2026-01-20T00:05:00Z', 'America/New_York', 'date'), 'Mon 19 Jan 2026');
  t.end();
});

type Ring = [number, number][];

/** The polygons of a geometry. */
function polygonsOf(geometry: Readonly<Record<string, unknown>>): Ring[][] {
  const { type, coordinates } = geometry;
  return type === 'Polygon' ? [coordinates as Ring[]] : (coordinates as Ring[][]);
}

/** Square degrees, positive if a ring runs counterclockwise. */
function areaOf(ring: Ring): number {
  return ring.slice(1).reduce((sum, [x, y], index) => {
    const [px, py] = ring[index] ?? [0, 0];
    return sum + (px * y - x * py) / 2;
  }, 0);
}

const box = (west: number, south: number, east: number, north: number): Ring => [
  [west, south],
  [west, north],
  [east, north],
  [east, south],
  [west, south],
];
const polygon = (...coordinates: Ring[]) => ({ type: 'Polygon', coordinates });

t.test('rings follow the right-hand rule, whatever their order in the tables', (t) => {
  const [outer, hole] = [box(0, 0, 10, 10), box(2, 2, 4, 4)];
  for (const rings of [
    [outer, hole],
    [[...outer].reverse(), hole],
    [outer, [...hole].reverse()],
  ]) {
    const [first] = polygonsOf(mapGeometry(polygon(...rings)));
    t.same(first?.map(areaOf), [100, -4]);
    const many = mapGeometry({ type: 'MultiPolygon', coordinates: [rings, [box(20, 0, 21, 1)]] });
    t.same(
      polygonsOf(many).map((each) => each.map(areaOf)),
      [[100, -4], [1]],
    );
  }
  const given = polygon(outer);
  mapGeometry(given);
  t.same(given, polygon(box(0, 0, 10, 10)), 'the record is unchanged');
  const point = { type: 'Point', coordinates: [-74, 40] };
  t.same(mapGeometry(point), point);
  t.end();
});

t.test('cuts only geometries that cross the antimeridian', (t) => {
  const areas = (...rings: Ring[]): number[][] =>
    polygonsOf(mapGeometry(polygon(...rings))).map((each) => each.map(areaOf));
  t.same(areas(box(170, 50, -170, 60)), [[100], [100]]);
  t.same(areas(box(170, 50, -170, 60).reverse()), [[100], [100]]);
  t.same(areas(box(170, 50, -170, 60), box(-178, 52, -176, 54)), [[100], [100, -4]], 'a hole east of it');
  t.same(areas(box(170, 50, -170, 60), box(176, 52, 178, 54)), [[100, -4], [100]], 'a hole west of it');
  t.same(
    areas(box(170, 50, -170, 60), box(179, 52, -179, 54)),
    [
      [100, -2],
      [100, -2],
    ],
    'a hole across it',
  );
  t.same(areas(box(170, 50, 180, 60)), [[100]], 'one that ends there');
  t.same(areas(box(-180, -90, 180, 90)), [[64_800]], 'the whole Earth');
  t.same(areas(box(-100, 0, 60, 10)), [[1600]], 'one of half the Earth');
  const explicit: Ring = [
    [170, 50],
    [180, 50],
    [-180, 50],
    [-170, 50],
    [-170, 60],
    [170, 60],
    [170, 50],
  ];
  t.same(areas(explicit), [[100], [100]], 'one that has positions on it');
  const pole: Ring = [
    [-120, 80],
    [0, 80],
    [120, 80],
    [-120, 80],
  ];
  const cap = areas(pole).flat();
  t.equal(
    cap.reduce((sum, area) => sum + area, 0),
    3600,
    'a ring around a pole contains it',
  );
  fc.assert(
    fc.property(
      fc.integer({ min: 140, max: 220 }),
      fc.array(fc.integer({ min: 5, max: 30 }), { minLength: 3, maxLength: 12 }),
      (middle, radii) => {
        // A star, whose lines all enter and leave on the same side.
        const star = radii.map((radius, index): [number, number] => {
          const angle = (2 * Math.PI * index) / radii.length;
          return [middle + radius * Math.cos(angle), radius * Math.sin(angle)];
        });
        const whole: Ring = [...star, star[0] ?? [0, 0]];
        const wrapped = whole.map(([x, y]): [number, number] => [x > 180 ? x - 360 : x, y]);
        const rings = polygonsOf(mapGeometry(polygon(wrapped))).flat();
        const total = rings.reduce((sum, ring) => sum + areaOf(ring), 0);
        const isWithin = rings.flat().every(([x]) => x >= -180 && x <= 180);
        const hasNoLeap = rings.every((ring) =>
          ring.every(([x], index) => Math.abs(x - (ring[index - 1]?.[0] ?? x)) <= 180),
        );
        return isWithin && hasNoLeap && Math.abs(total - Math.abs(areaOf(whole))) < 1e-6;
      },
    ),
  );
  t.end();
});

t.test('puts metadata next to GeoJSON features, and lists unknown values', (t) => {
  const places = [
    { id: 'a', geometry: polygon(box(170, 50, -170, 60)), properties: { event: 'Gale', zones: ['PKZ1'] } },
    { id: null, geometry: null, properties: {} },
  ];
  const meta = { stale: true, asOf: '2026-01-20T18:10:00Z' } as const;
  const text = renderGeoJson({ about: { total: 2 }, places }, meta);
  t.same(getIssues(text), []);
  const collection = JSON.parse(text) as { features: object[] };
  t.match(collection, { type: 'FeatureCollection', data: { total: 2 }, meta });
  t.match(collection.features[0], { id: 'a', properties: { zones: ['PKZ1'] } });
  t.same(collection.features[1], { type: 'Feature', geometry: null, properties: {} });
  const none = renderGeoJson(null);
  t.same(getIssues(none), []);
  t.equal(none, '{"type":"FeatureCollection","data":null,"features":[]}');
  t.end();
});

t.test('CSV keeps quotes, commas and lines, and no value is a formula', (t) => {
  interface Row {
    name: string | null;
    temperature: number | null;
    isDay: boolean;
  }
  const columns = fields({ name: null, temperature: 'temperature', isDay: null });
  const table = weatherTable(columns, ({ rows }: { rows: Row[] }) => rows);
  const formulas = ['=1+1', '+1', '-RA', '@SUM(A1)', '\t=1', '\r=1', '＝1', '-1'];
  const plain = ['a "b", c\r\nd', 'é𝄞', 'a=1', "'quoted", '', null];
  const rows = [...formulas, ...plain].map((name, index): Row => ({
    name,
    temperature: -index,
    isDay: true,
  }));
  const text = renderCsv(table, { rows }, 'us');
  t.match(text, /^name,temperature \(degF\),isDay\r\n/);
  t.match(text, /\r\n$/);
  t.same(parse(text, { record_delimiter: '\r\n' }), [
    ['name', 'temperature (degF)', 'isDay'],
    ...rows.map(({ name }, index) => [
      index < formulas.length ? `'${name}` : (name ?? ''),
      String(-index),
      'true',
    ]),
  ]);
  t.equal(renderCsv(table, null, 'si'), 'name,temperature (degC),isDay\r\n', 'no record, but still a table');
  t.end();
});

t.test("one observation, several, and a station's history have the same columns", async (t) => {
  const file = await readFile('test/fixtures/weather-golden/observation-knyc.json', 'utf8');
  const { data } = JSON.parse(file) as { data: ObservationData };
  const { station, timeZone, ...row } = data;
  const rows = (table: object): string[][] => parse(renderCsv(observationTable, table, 'si'));
  const [names = [], one = []] = rows(data);
  t.same(rows({ observations: [data, data], missing: [] }), [names, one, one]);
  t.same(rows({ station, timeZone, observations: [row] }), [names, one]);
  t.same(rows({ observations: [], missing: ['KXYZ'] }), [names]);
  const read = Object.fromEntries(names.map((name, index) => [name, one[index]]));
  t.match(read, { station: 'KNYC', observedAt: data.observedAt, timeZone: 'America/New_York' });
  for (const quantity of Object.keys(data.quality)) {
    const name = names.find((each) => each.startsWith(`${quantity} (`)) ?? 'none';
    t.equal(read[name], String(data[quantity as keyof typeof data.quality] ?? ''), name);
  }
});
