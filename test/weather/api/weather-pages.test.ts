import t from 'tap';
import { hidesArea, labelPoint, outlinesOf, statesIn } from '../../../src/weather/pages/map-cover.ts';
import { apart, type MapStation } from '../../../src/weather/pages/map-layers.ts';
import { rememberedUnits } from '../../../src/weather/pages/map-query.ts';
import { outlinePath, states } from '../../../src/weather/pages/map-shapes.ts';
import { forecastWindOf, iconOf, paragraphsOf, windOf } from '../../../src/weather/pages/words.ts';

t.test('describes wind in words', (t) => {
  const wind = { windDirection: 337, windSpeed: 15, windGust: 30 };
  t.equal(windOf(wind, 'mph'), 'NNW\u00a015\u00a0mph, gusts\u00a0to\u00a030\u00a0mph');
  t.equal(windOf({ ...wind, windSpeed: 0 }, 'mph'), 'Calm');
  t.equal(windOf({ ...wind, windDirection: null, windGust: null }, 'mph'), 'Variable\u00a015\u00a0mph');
  t.equal(
    windOf({ ...wind, windSpeed: null }, 'mph'),
    'Gusts\u00a0to\u00a030\u00a0mph',
    'a gust without a wind',
  );
  const forecast = { windDirection: 'W', windSpeedMin: 5, windSpeedMax: 10 };
  t.equal(forecastWindOf(forecast), 'W\u00a05\u00a0to\u00a010');
  t.equal(forecastWindOf({ ...forecast, windSpeedMax: null }), '–');
  t.end();
});

t.test('an icon matches the text of the sky, and unknown texts have none', (t) => {
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

t.test('an outline across the antimeridian has the right position on the map, without a stripe', (t) => {
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

t.test('values on the map do not overlap, and the best-known station stays', (t) => {
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

t.test('a station is left out if its disc would hide a small area', (t) => {
  const large = outlinesOf('M0,0L100,0L100,100L0,100Z');
  const small = outlinesOf('M200,0L210,0L210,10L200,10Z');
  const hides = (x: number, y: number): boolean => hidesArea([...large, ...small], [x, y], 10);
  t.notOk(hides(50, 50), 'a large area stays visible around a disc');
  t.notOk(hides(105, 50));
  t.notOk(hides(150, 50));
  t.ok(hides(205, 5));
  t.ok(hides(215, 15), 'a corner is enough');
  t.end();
});

t.test('the abbreviation of a state is inside it, where nothing else is, or missing', (t) => {
  const stateOf = (code: string) => states().find((one) => one.code === code)!;
  const kansas = stateOf('KS');
  const [left, top, right, bottom] = kansas.box;
  const [x, y] = labelPoint(kansas, [9, 5], () => true)!;
  t.ok(x - 9 > left && x + 9 < right && y - 5 > top && y + 5 < bottom);
  const [other] = labelPoint(kansas, [9, 5], ([at]) => at > x + 20)!;
  t.ok(other > x + 20, 'makes room for a station');
  t.equal(
    labelPoint(kansas, [9, 5], () => false),
    null,
  );
  t.equal(
    labelPoint(stateOf('RI'), [9, 5], () => true),
    null,
    'too small',
  );
  t.end();
});

t.test('an area has the names of all states that are partly in it', (t) => {
  const ringOf = (west: number, south: number, east: number, north: number): [number, number][] => [
    [west, south],
    [east, south],
    [east, north],
    [west, north],
    [west, south],
  ];
  const namesIn = (...coordinates: [number, number][][]): string[] =>
    statesIn(outlinePath({ type: 'Polygon', coordinates }, 1), states()).map(({ name }) => name);
  t.same(namesIn(ringOf(-106, 38, -101, 40)), ['Colorado', 'Kansas']);
  t.same(namesIn(ringOf(-60, 30, -55, 35)), [], 'in the sea');
  t.same(namesIn(ringOf(-98.1, 31, -98, 31.1)), ['Texas'], 'a small part of a large state');
  const south = namesIn(ringOf(-100, 27, -78, 39));
  for (const name of ['Illinois', 'Ohio', 'Virginia', 'West Virginia'])
    t.ok(south.includes(name), `${name} has a small part of a large area`);
  t.notOk(south.includes('New Mexico'));
  const around = namesIn(ringOf(-106, 34, -92, 43), ringOf(-103, 36.5, -94, 40.5));
  t.ok(around.includes('Nebraska'));
  t.notOk(around.includes('Kansas'), 'in a hole of the area');
  t.end();
});

t.test('only a cookie remembers the units that were last selected', (t) => {
  const remembered = (cookie: string): unknown => rememberedUnits({ headers: { cookie } });
  t.equal(remembered('a=b; waybill_units=si'), 'si');
  t.equal(remembered('waybill_units=us; a=b'), 'us');
  for (const other of ['', 'waybill_units=kelvin', 'xwaybill_units=si', 'waybill_units=sius'])
    t.equal(remembered(other), null, other);
  t.end();
});
