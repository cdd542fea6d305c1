import { readFile } from 'node:fs/promises';
import t from 'tap';
import { textHelpers } from '../../../src/weather/render/text-helpers.ts';
import { createTextRenderer, packagedTemplates } from '../../../src/weather/render/text-renderer.ts';

const text = createTextRenderer(packagedTemplates);

type Changes = Readonly<Record<string, unknown>>;

/** The record of a golden file, with other values for these names. */
async function recordOf(name: string, changes: Changes): Promise<object> {
  const file = await readFile(`test/fixtures/weather-golden/${name}.json`, 'utf8');
  const { data } = JSON.parse(file, (key, value: unknown) =>
    Object.hasOwn(changes, key) ? changes[key] : value,
  ) as { data: object };
  return data;
}

async function linesOf(template: string, name: string, changes: Changes): Promise<string[]> {
  const data = await recordOf(name, changes);
  const rendered = await text.render(template, data, { endpoint: '', parameters: {} });
  return rendered.split('\n');
}

const tables = [
  ['hourly_forecasts', 'hourly', 12],
  ['hourly_forecasts', 'hourly-us', 3],
  ['observation_history', 'observation-history', 1],
  ['stations', 'stations-near', 3],
  ['locations', 'locations', 2],
  ['offices', 'offices-near', 2],
] as const;

t.test('a row of a table is one line, with any place and time zone', async (t) => {
  for (const timeZone of ['America/New_York', 'America/Anchorage', 'Pacific/Guam', 'UTC'])
    for (const [template, name, rows] of tables) {
      const newestAt = '2026-01-20T18:51:00Z';
      const lines = await linesOf(template, name, {
        timeZone,
        newestAt,
        shortForecast: 'Chance Snow',
        name: 'Anchorage',
      });
      const table = lines.slice(lines.findIndex((line) => line.startsWith('-----')) + 1).filter(Boolean);
      t.equal(table.length, rows, `${template} in ${timeZone}`);
      t.same(
        lines.filter((line) => line.length > 80),
        [],
        `${template} in ${timeZone}`,
      );
    }
});

t.test('shows the year in a list of places if the newest entry is older than three days', async (t) => {
  for (const [template, name] of tables.slice(3)) {
    const linesAt = async (newestAge: number): Promise<string[]> =>
      linesOf(template, name, { newestAt: '2024-03-14T12:53:00Z', newestAge, timeZone: 'Pacific/Honolulu' });
    t.ok(
      (await linesAt(259_201)).some((line) => line.endsWith(' Thu 14 Mar 2024')),
      template,
    );
    t.ok(
      (await linesAt(259_200)).some((line) => line.endsWith(' Thu 14 Mar 02:53 HST')),
      template,
    );
  }
});

t.test('reports that a forecast has no hour in the requested time', async (t) => {
  const lines = await linesOf('hourly_forecasts', 'hourly', { periods: [] });
  t.match(lines.filter(Boolean).at(-1), /^No hour of this forecast is in this time\.$/);
});

t.test('no column overflows, and all values of a column have the same decimals', async (t) => {
  const period = { shortForecast: 'Chance Showers And Thunderstorms then Slight Chance Freezing Drizzle' };
  const wind = {
    windDirection: 'WNW',
    windSpeedMin: 100,
    windSpeedMax: 112.6,
    temperature: -40,
    dewpoint: -45.5,
  };
  const lines = await linesOf('hourly_forecasts', 'hourly', { ...period, ...wind, timeZone: 'Pacific/Guam' });
  t.same(
    lines.filter((line) => line.length > 80),
    [],
  );
  const rows = lines.filter((line) => /^... \d\d ... \d\d:\d\d/.test(line));
  t.equal(rows.length, 12);
  for (const row of rows)
    t.match(row, /^... \d\d ... \d\d:00 GMT\+10  -40\.0  -45\.5 +\d+% +\d+% WNW +Chance Showers$/);
  t.ok(lines.includes(`${' '.repeat(48)}100.0-112.6    And Thunderstorms`), 'continues long lines below');
});

t.test('a long name does not change the rest of its line', async (t) => {
  const name = 'Weather Station of the Municipal Department of Public Works and Harbours at Old Harbour Bay';
  const sender = { senderName: name, event: `${name} Statement`, title: name, priority: true };
  for (const [template, golden] of [
    ['observations', 'observation-knyc'],
    ['observations', 'observations-three'],
    ['current_conditions', 'current'],
    ['observation_history', 'observation-history'],
    ['active_alerts', 'alerts-two'],
    ['alert', 'alert'],
    ['weather_stories', 'stories'],
  ] as const) {
    const lines = await linesOf(template, golden, {
      name,
      ...sender,
      textDescription: name,
      description: name,
    });
    t.same(
      lines.filter((line) => line.length > 80 && !line.includes('https://')),
      [],
      template,
    );
    t.ok(
      lines.some((line) => /Municipal Department/i.test(line)),
      template,
    );
  }
});

t.test('shows alert times in the zone of their place, also in states with two zones', async (t) => {
  const { zoneOf } = textHelpers;
  const around = (longitude: number, latitude: number) => [
    [longitude, latitude],
    [longitude + 0.2, latitude],
    [longitude + 0.2, latitude + 0.2],
    [longitude, latitude],
  ];
  const polygon = (longitude: number, latitude: number) => ({
    type: 'Polygon',
    coordinates: [around(longitude, latitude)],
  });
  t.equal(zoneOf(['TXZ424']), 'America/Chicago', 'most of Texas');
  t.equal(zoneOf(['TXZ424'], polygon(-106.5, 31.7)), 'America/Denver', 'El Paso');
  t.equal(zoneOf(['FLZ206'], polygon(-87.2, 30.5)), 'America/Chicago', 'Pensacola');
  const several = { type: 'MultiPolygon', coordinates: [[around(-87.6, 38)], [around(-86.2, 39.8)]] };
  t.equal(zoneOf(['INZ086'], several), 'America/Chicago', 'Evansville, first');
  t.equal(zoneOf(['ANZ338'], polygon(-70, 39)), 'America/New_York', 'at sea, the zone of the coast');
  t.equal(zoneOf(null, { type: 'Point', coordinates: [-149.9, 61.2] }), 'America/Anchorage');
  t.equal(zoneOf([], { type: 'Polygon', coordinates: [] }), 'UTC', 'with no information');
  t.equal(zoneOf(null, null), 'UTC');

  const alerts = await linesOf('active_alerts', 'alerts-two', {
    zones: ['TXZ424'],
    geometry: polygon(-106.5, 31.7),
    onsetAt: '2026-07-01T18:00:00Z',
    endsAt: '2026-07-01T19:00:00Z',
  });
  t.ok(alerts.includes('  Until  Wed 01 Jul 2026 13:00 MDT'));
});

t.test('a table in a description keeps its lines, and the text around it is wrapped', (t) => {
  const description = [
    'Crests are expected as in the',
    'table below.',
    '',
    'Location        Flood Stage   Crest',
    'Red River           18.0       21.4',
    'Sheyenne            14.5       15.0',
    '',
    'Turn around,',
    'do not drown.',
  ].join('\n');
  t.equal(
    textHelpers.wrap(description, 80, '  '),
    [
      '  Crests are expected as in the table below.',
      '',
      '  Location        Flood Stage   Crest',
      '  Red River           18.0       21.4',
      '  Sheyenne            14.5       15.0',
      '',
      '  Turn around, do not drown.',
    ].join('\n'),
  );
  t.end();
});
