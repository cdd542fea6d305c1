import { readFileSync } from 'node:fs';
import t from 'tap';
import { recognise } from '../../../../src/weather/feed/documents/recognise.ts';
import type { Loadable } from '../../../../src/weather/feed/documents/rows.ts';
import { textHelpers } from '../../../../src/weather/render/text-helpers.ts';

/** Unusual public data that was read incorrectly, in the documents and in the texts. */

function one<F extends Loadable['family']>(
  document: unknown,
  family: F,
  name = 'x.json',
): Loadable & { family: F } {
  const text = typeof document === 'string' ? document : JSON.stringify(document);
  const [record] = recognise(text, name).records;
  if (record?.family !== family) throw new Error(`no ${family}`);
  return record as Loadable & { family: F };
}

const discussion = (header: string, awips: string, body: string): string =>
  `000\n${header}\n${awips}\n\nArea Forecast Discussion\nNational Weather Service\n600 PM MST /700 PM CST/ Wed Mar 21 2018\n\n${body}`;

t.test('takes the office of a product from its identifier', async (t) => {
  for (const [header, awips, office] of [
    ['FXCA62 TJSJ 220100', 'AFDSJU', 'SJU'],
    ['FXZS60 NSTU 220100', 'AFDPPG', 'PPG'],
    ['FXUS61 KOKX 220100', 'AFDOKX', 'OKX'],
  ] as const)
    t.equal(
      one(discussion(header, awips, '.SYNOPSIS...\nDry.\n'), 'forecast_discussion').discussion['office'],
      office,
    );
});

t.test('reads a date line with two time zones, and keeps a heading of two lines', async (t) => {
  const text = discussion(
    'FXUS65 KPSR 220100',
    'AFDPSR',
    '.NEAR TERM /UNTIL 6 AM\nTHURSDAY MORNING/...\nDry.\n\n.LONG TERM...\nWet.\n',
  );
  const { discussion: found, sections } = one(text, 'forecast_discussion');
  t.equal(found['issued_at'], '2018-03-22T01:00:00.000Z');
  t.match(sections, [
    { heading: 'NEAR TERM', qualifier: 'UNTIL 6 AM THURSDAY MORNING', body: 'Dry.' },
    { heading: 'LONG TERM', qualifier: null, body: 'Wet.' },
  ]);
});

const station = (id: string, coordinates: number[], more: object = {}): object => ({
  features: [
    {
      geometry: { type: 'Point', coordinates },
      properties: { '@type': 'wx:ObservationStation', stationIdentifier: id, name: id, ...more },
    },
  ],
});

t.test("takes the time zone from the data, and keeps the country's zone for islands", async (t) => {
  const zoneOf = (document: object): unknown => one(document, 'places').rows[0]?.['time_zone'];
  t.equal(zoneOf(station('KXXX', [-100, 40], { timeZone: 'America/Phoenix' })), 'America/Phoenix');
  t.equal(zoneOf(station('KXXX', [-74, 40.7], { timeZone: 'Mars/Base' })), 'America/New_York');
  t.equal(zoneOf(station('NSTU', [-170.71, -14.33])), 'Pacific/Pago_Pago');
  t.equal(zoneOf(station('PAGM', [-171.73, 63.77])), 'America/Nome');
});

t.test('corrects swapped coordinates of an observation and notes it', async (t) => {
  const { records, leftOut } = recognise(
    JSON.stringify({
      geometry: { type: 'Point', coordinates: [40.78, -73.97] },
      properties: { station: 'KNYC', timestamp: '2026-01-20T17:51:00' },
    }),
    'x.json',
  );
  t.match(records, [{ station: { latitude_deg: 40.78, longitude_deg: -73.97 } }]);
  t.match(
    records,
    [{ observation: { observed_at: '2026-01-20T17:51:00.000Z' } }],
    'a time without a zone is UTC',
  );
  t.match(leftOut, [/without a time zone; read as UTC$/, /latitude and longitude are swapped$/]);
});

t.test('reads wind as a quantity or a range, in its unit', async (t) => {
  const file = 'test/fixtures/weather/forecast_hourly/OKX_33_35_hourly_20260120.json';
  const document = JSON.parse(readFileSync(file, 'utf8')) as {
    properties: { periods: Record<string, unknown>[] };
  };
  const [first, second, third] = document.properties.periods;
  Object.assign(first!, { windSpeed: { unitCode: 'wmoUnit:m_s-1', minValue: 5, maxValue: 10 } });
  Object.assign(second!, {
    windSpeed: { unitCode: 'wmoUnit:km_h-1', value: 20 },
    windGust: { unitCode: 'wmoUnit:knots', value: 9 },
  });
  Object.assign(third!, { windSpeed: '10 kt' });
  const { records, leftOut } = recognise(JSON.stringify(document), 'OKX_33_35_hourly.json');
  t.match(records, [
    {
      periods: [
        { wind_speed_min_kmh: 18, wind_speed_max_kmh: 36 },
        { wind_speed_min_kmh: 20, wind_speed_max_kmh: 20, wind_gust_kmh: null },
        { wind_speed_max_kmh: 18.52 },
      ],
    },
  ]);
  t.match(leftOut, [/^properties\.periods\[1\]: windGust has the unit "wmoUnit:knots"/]);
});

t.test('keeps line breaks of lists, and describes weather and wind in words', async (t) => {
  const { wrap, weather, wind } = textHelpers;
  t.equal(
    wrap('Today:\n* Wind, gusts to 60 mph\n  near the coast\n* Snow', 30),
    'Today:\n* Wind, gusts to 60 mph near\n  the coast\n* Snow',
  );
  const fog = { intensity: null, modifier: 'freezing', phenomenon: 'fog', inVicinity: true };
  t.equal(weather({ textDescription: '', presentWeather: [fog] }), 'Freezing fog in the vicinity');
  t.equal(weather({ textDescription: null, presentWeather: [] }), '--');
  const variable = { windDirection: null, windSpeed: 6.8, windGust: null };
  t.equal(
    wind(variable, (speed) => `${speed} mph`),
    'variable 6.8 mph',
  );
});
