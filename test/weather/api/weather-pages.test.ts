import t from 'tap';
import { apart, type MapStation } from '../../../src/weather/pages/map-layers.ts';
import { rememberedUnits } from '../../../src/weather/pages/map-query.ts';
import { outlinePath } from '../../../src/weather/pages/projection.ts';
import {
  directionOf,
  forecastWindOf,
  iconOf,
  paragraphsOf,
  windOf,
} from '../../../src/weather/pages/words.ts';

t.test('wind is said in words', (t) => {
  t.same(['N', 'SE', 'NNW', 'WSW', '--', 'VRB'].map(directionOf), [
    'north',
    'southeast',
    'north-northwest',
    'west-southwest',
    null,
    null,
  ]);
  const wind = { windDirection: 337, windSpeed: 15, windGust: 30 };
  t.equal(windOf(wind, 'mph'), 'North-northwest at 15\u00a0mph, gusts to 30\u00a0mph');
  t.equal(windOf({ ...wind, windSpeed: 0 }, 'mph'), 'Calm');
  t.equal(windOf({ ...wind, windDirection: null, windGust: null }, 'mph'), 'Variable at 15\u00a0mph');
  t.equal(windOf({ ...wind, windSpeed: null }, 'mph'), 'Gusts to 30\u00a0mph', 'a gust without a wind');
  const forecast = { windDirection: 'W', windSpeedMin: 5, windSpeedMax: 10 };
  t.equal(forecastWindOf(forecast, 'mph'), 'W 5 to 10\u00a0mph');
  t.equal(forecastWindOf({ ...forecast, windSpeedMax: null }, 'mph'), '–');
  t.end();
});

t.test('an icon follows the words of the sky, and there is none for other words', (t) => {
  for (const [sky, icon] of [
    ['Thunderstorm and Rain', 'thunder'],
    ['Light Freezing Rain', 'sleet'],
    ['Chance Snow Showers', 'snow'],
    ['Patchy Fog', 'fog'],
    ['Mostly Sunny', 'partly'],
    ['Overcast', 'cloudy'],
    ['Unknown Precip', null],
    ['', null],
  ] as const)
    t.equal(iconOf(sky, true), icon, sky);
  t.equal(iconOf('Clear', false), 'night');
  t.equal(iconOf('Partly Cloudy', false), 'partly-night');
  t.end();
});

t.test('the text of an alert has paragraphs, and tables keep their lines', (t) => {
  const text =
    '* WHAT...Heavy snow. Winds\ncould gust.\n\n* WHERE...Here.\nAnd\n* there.\n\nCity   Time   Inches\nHere   1 PM   4';
  t.same(paragraphsOf(text), [
    { label: 'What', text: 'Heavy snow. Winds could gust.', isTable: false },
    { label: 'Where', text: 'Here. And', isTable: false },
    { label: null, text: '* there.', isTable: false },
    { label: null, text: 'City   Time   Inches\nHere   1 PM   4', isTable: true },
  ]);
  t.same(paragraphsOf(null), []);
  t.end();
});

t.test('an outline across the antimeridian lies on the map where it is, without a stripe', (t) => {
  const path = (west: number, east: number): [number, number][] => {
    const ring = [
      [west, 51],
      [east, 51],
      [east, 54],
      [west, 54],
      [west, 51],
    ];
    const data = outlinePath({ type: 'Polygon', coordinates: [ring] }, 0.5);
    return [...data.matchAll(/([\d.]+),([\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]);
  };
  const across = path(178, -176);
  const widthOf = (points: [number, number][]): number =>
    Math.max(...points.map(([x]) => x)) - Math.min(...points.map(([x]) => x));
  t.ok(across.length > 8, 'long edges have points between their corners');
  t.ok(widthOf(across) < 2 * widthOf(path(-176, -170)), 'it is as wide as one of six degrees next to it');
  t.end();
});

t.test('figures on the map do not cover each other, and the best known station stays', (t) => {
  const at = (id: string, x: number): MapStation => ({
    place: { id, newestAge: 5 } as MapStation['place'],
    at: [x, 10],
    observation: null,
  });
  const frame = { left: 0, top: 0, width: 100, height: 60 };
  const kept = apart([at('ABC12', 10), at('KNYC', 15), at('KJFK', 40)], frame, 0.1);
  t.same(kept.map(({ place }) => place.id).sort(), ['KJFK', 'KNYC']);
  t.end();
});

t.test('the units that were chosen last come from a cookie, and from nothing else', (t) => {
  const remembered = (cookie: string): unknown => rememberedUnits({ headers: { cookie } });
  t.equal(remembered('a=b; waybill_units=si'), 'si');
  t.equal(remembered('waybill_units=us; a=b'), 'us');
  for (const other of ['', 'waybill_units=kelvin', 'xwaybill_units=si', 'waybill_units=sius'])
    t.equal(remembered(other), null, other);
  t.end();
});
