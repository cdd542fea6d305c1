import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { type MakeWorld, onPglite, onPostgres } from './weather-worlds.ts';

/**
 * Publicly reported errors of other programs that read weather data, tested from the document to the answer.
 * Some of them could have caused harm.
 */

const findings: [title: string, run: (t: Test, world: MakeWorld) => Promise<void>][] = [];
const finding = (...one: (typeof findings)[number]): void => void findings.push(one);

type Json = Record<string, unknown>;

const box = (west: number, south: number, east: number, north: number): Json => ({
  type: 'Polygon',
  coordinates: [
    [
      [west, south],
      [east, south],
      [east, north],
      [west, north],
      [west, south],
    ],
  ],
});
const nothing = { type: 'GeometryCollection', geometries: [] };

const outlook = (label: string, geometry: unknown, issue = '202601201630', valid = issue): Json => ({
  type: 'FeatureCollection',
  features: [
    {
      type: 'Feature',
      geometry,
      properties: { DN: 0, VALID: valid, EXPIRE: '202601211200', ISSUE: issue, LABEL: label, LABEL2: label },
    },
  ],
});
const whole = [
  ['day1otlk_cat.nolyr.geojson', outlook('HIGH', box(-100, 30, -90, 40), '202601201300')],
  ['day1otlk_torn.nolyr.geojson', outlook('0.30', box(-100, 30, -90, 40), '202601201300')],
  ['day1otlk_wind.nolyr.geojson', outlook('0.15', box(-100, 30, -90, 40), '202601201300')],
  ['day1otlk_hail.nolyr.geojson', outlook('Less Than 5% All Areas', nothing, '202601201300')],
] as const;
const station = [
  'stations.json',
  {
    type: 'FeatureCollection',
    features: [
      {
        geometry: { type: 'Point', coordinates: [-95, 35] },
        properties: { '@type': 'wx:ObservationStation', stationIdentifier: 'KMID', name: 'Middle' },
      },
    ],
  },
] as const;

finding('an outlook that arrived partially never reads as "no storms"', async (t, world) => {
  const discussion = `ACUS01 KWNS 201628\nSWODY1\nSPC AC 201628\n\nDay 1 Convective Outlook\nNWS Storm Prediction Center Norman OK\n1028 AM CST Tue Jan 20 2026\n\nValid 201630Z - 211200Z\n\n...HIGH RISK...\n\n...SUMMARY...\nTornadoes.\n\n`;
  const next = outlook('0.10', box(-100, 30, -90, 40));
  for (const [what, more, otherIssues] of [
    ['only the next discussion', [['SWODY1.txt', discussion]], undefined],
    ['only the next tornado file', [['day1otlk_torn.nolyr.geojson', next]], [{ field: 'tornado' }]],
  ] as const) {
    const { get, json } = await world(t, [station, ...whole, ...more]);
    const text = await get('/convective-outlooks?format=text');
    t.match(text, /Highest category: HIGH/, what);
    t.match(text, /\*\*\* A newer issue, of Tue 20 Jan 2026 16:\d\d UTC, has arrived in part/);
    const { data, meta } = await json('/convective-outlooks?point=35,-95');
    t.match(data, { maximumCategory: 'HIGH', risk: [{ hazard: 'categorical', category: 'HIGH' }] });
    t.match(
      meta,
      otherIssues === undefined ? { newerIssuedAt: String } : { newerIssuedAt: String, otherIssues },
    );
    const page = await get('/weather/stations/KMID');
    t.match(page, /Today<\/strong>.* HIGH<\/span>/);
    t.notMatch(page, /no thunderstorms expected/i);
  }
  const [high] = whole;
  const alone = await world(t, [station, high]);
  t.match(await alone.get('/convective-outlooks?format=text'), /NOT KNOWN: tornado: it has not arrived/);
  t.match(await alone.get('/weather/stations/KMID'), /HIGH.*chance of tornadoes, .* is not known yet/s);
  const only = await world(t, [station, whole[1]]);
  t.match(await only.get('/convective-outlooks?format=text'), /Highest category: not known/);
  t.match(await only.get('/weather/stations/KMID'), /Risk unknown: the outlook has arrived in part/);
  t.match((await only.json('/convective-outlooks'))['meta'], {
    unknown: [{ field: 'maximumCategory', reason: 'not_received' }],
  });
});

finding('an outlook reports nothing for a place that it does not cover', async (t, world) => {
  const { get, json } = await world(t, [station, ...whole]);
  const riskOf = async (point: string): Promise<unknown> =>
    ((await json(`/convective-outlooks?hazard=categorical&point=${point}`))['data'] as Json)['risk'];
  t.match(await riskOf('45,-75'), [{ state: 'none', reason: null }], 'no storms, in the contiguous states');
  for (const point of ['61.2,-149.9', '21.3,-157.9', '18.4,-66'])
    t.match(await riskOf(point), [{ state: 'unknown', reason: 'not_covered', category: null }], point);
  t.match(await get('/convective-outlooks?format=text&point=61.2,-149.9'), /it does not cover this place/);
});

finding('placeholders of quiet days replace the areas of the day before', async (t, world) => {
  const day4 = (label: string, geometry: unknown, issue: string): readonly [string, Json] => [
    'day4prob.nolyr.geojson',
    outlook(label, geometry, issue, '202601201200'),
  ];
  const before = day4('0.15', box(-100, 30, -90, 40), '202601190900');
  const low = await world(t, [before, day4('Potential Too Low', nothing, '202601200900')]);
  t.match((await low.json('/convective-outlooks?day=4'))['data'], { areas: { length: 0 } });
  const vague = await world(t, [before, day4('Predictability Too Low', nothing, '202601200900')]);
  const { data, meta } = await vague.json('/convective-outlooks?day=4&point=35,-95');
  t.match(data, { risk: [{ state: 'unknown', reason: 'predictability_too_low' }] });
  t.match(meta, { unknown: [{ field: 'any_severe', reason: 'predictability_too_low' }] });
  const text = await vague.get('/convective-outlooks?day=4&format=text');
  t.notMatch(text, /Highest category/, 'days 4 to 8 have no categories');
  t.match(text, /predictability is too low/);
  const broken = outlook('HIGH', box(-100, 30, -90, 40)) as { features: Json[] };
  broken.features.push({ ...broken.features[0], geometry: { type: 'Polygon', coordinates: [[[0, 0]]] } });
  const partial = await world(t, [['day1otlk_cat.nolyr.geojson', broken]]);
  t.match(partial.fed, [{ outcome: 'loaded', leftOut: [/^features\[1\]: the geometry of the area HIGH/] }]);
  t.match((await partial.json('/convective-outlooks'))['data'], { maximumCategory: 'HIGH' });
});

interface AlertOptions {
  geometry?: unknown;
  properties?: Json;
  parameters?: Json;
  ugc?: string[];
}

function alert(id: string, { geometry = null, properties, parameters = {}, ugc = [] }: AlertOptions): Json {
  return {
    id: `https://api.weather.gov/alerts/${id}`,
    geometry,
    properties: {
      id,
      areaDesc: `area of ${id}`,
      geocode: { UGC: ugc, SAME: [] },
      sent: '2026-01-20T17:00:00Z',
      effective: '2026-01-20T17:00:00Z',
      expires: '2026-01-20T23:00:00Z',
      status: 'Actual',
      messageType: 'Alert',
      category: 'Met',
      severity: 'Extreme',
      certainty: 'Likely',
      urgency: 'Immediate',
      event: 'Tornado Warning',
      parameters,
      ...properties,
    },
  };
}

const poll = (...features: Json[]): readonly [string, Json] => [
  'alerts.json',
  { type: 'FeatureCollection', updated: '2026-01-20T18:19:00Z', features },
];
const idsOf = ({ data }: Json): unknown =>
  (data as { alerts: { id: string }[] }).alerts.map(({ id }) => id).sort();

finding('a polygon across the antimeridian has the right position in every output', async (t, world) => {
  const { get, json } = await world(t, [poll(alert('bering', { geometry: box(179, 55, -179, 65) }))]);
  t.same(idsOf(await json('/alerts?point=60,179.5')), ['bering']);
  t.same(idsOf(await json('/alerts?point=60,-179.5')), ['bering']);
  t.same(idsOf(await json('/alerts?point=60,10')), [], 'not Norway');
  t.same(idsOf(await json('/alerts?bbox=170,50,-170,70')), ['bering']);
  t.same(idsOf(await json('/alerts?bbox=0,50,20,70')), []);
  t.match(await get('/alerts?format=geojson'), /MultiPolygon/);
  const cell = JSON.parse(
    readFileSync('test/fixtures/weather/forecast_hourly/OKX_33_35_hourly_20260120.json', 'utf8'),
  ) as Json;
  const forecast = await world(t, [
    ['AER_1_2_hourly.json', { ...cell, geometry: box(179.9, 52, -179.9, 52.1) }],
  ]);
  t.match(await forecast.json('/locations'), { data: { locations: [{ longitude: 180 }] } });
});

finding(
  'a fire-weather warning is placed in its fire zone, not in the public zone with the same code',
  async (t, world) => {
    const zone = (type: string, geometry: unknown): Json => ({
      geometry,
      properties: { '@type': 'wx:Zone', id: 'COZ040', type, name: type },
    });
    const zones = [zone('public', box(-106, 39, -105, 40)), zone('fire', box(-103, 37, -102, 38))];
    const affectedZones = ['https://api.weather.gov/zones/fire/COZ040'];
    const fire = alert('fire', { ugc: ['COZ040'], properties: { event: 'Red Flag Warning', affectedZones } });
    const { json } = await world(t, [['zones.json', { features: zones }], poll(fire)]);
    t.same(idsOf(await json('/alerts?point=37.5,-102.5')), ['fire']);
    const elsewhere = await json('/alerts?point=39.5,-105.5');
    t.same(idsOf(elsewhere), []);
    const unknown = await world(t, [['zones.json', { features: [zones[0]] }], poll(fire)]);
    t.match(await unknown.json('/alerts?point=39.5,-105.5'), { data: { unplaced: 1 } });
  },
);

const observation = (properties: Json, coordinates = [-95, 35]): Json => ({
  geometry: { type: 'Point', coordinates },
  properties: {
    station: 'https://api.weather.gov/stations/KMID',
    timestamp: '2026-01-20T18:00:00Z',
    ...properties,
  },
});
const value = (figure: number, unitCode: string, qualityControl = 'V'): Json => ({
  value: figure,
  unitCode,
  qualityControl,
});

finding('one invalid field affects only that field', async (t, world) => {
  const { fed, json } = await world(t, [
    [
      'observations.json',
      {
        features: [
          { properties: { timestamp: 'never' } },
          observation({
            textDescription: 'Fog\0gy',
            temperature: value(3, 'wmoUnit:degC'),
            relativeHumidity: value(112.4, 'wmoUnit:percent'),
            windGust: value(-17.9, 'wmoUnit:km_h-1'),
            cloudLayers: [{ amount: 'NSC' }, { amount: 'BKN', base: value(900, 'wmoUnit:m') }],
          }),
        ],
      },
    ],
  ]);
  t.match(fed, [{ outcome: 'loaded', leftOut: { length: 4 } }]);
  t.ok(fed[0]?.leftOut.every((message) => message.startsWith('features[')));
  t.match(await json('/observations?station=KMID'), {
    data: {
      textDescription: 'Foggy',
      temperature: 3,
      relativeHumidity: null,
      windGust: null,
      clouds: [{ amount: 'BKN', base: 900 }],
    },
  });
  const odd = await world(t, [station, poll(alert('odd', { ugc: ['ZZ!'] }))]);
  t.match(await odd.json('/alerts'), { data: { total: 1, alerts: [{ id: 'odd' }] } });
  t.match(await odd.json('/alerts?point=35,-95'), { data: { unplaced: 1 } });
  t.notMatch(await odd.get('/alerts?point=35,-95&format=text'), /No alert is in force/);
  t.match(await odd.get('/weather/stations/KMID'), /1 alert may apply here, but its exact area is unknown/);
});

finding('parses units, and rejects unknown ones by name', async (t, world) => {
  const { fed, json } = await world(t, [
    [
      'KMID.json',
      observation({
        temperature: value(50, 'wmoUnit:degF'),
        windSpeed: value(10, 'wmoUnit:m_s-1'),
        precipitationLastHour: value(0.0051, 'wmoUnit:m'),
        seaLevelPressure: value(1013, 'unit:hPa'),
        visibility: value(3, 'wmoUnit:furlong'),
      }),
    ],
  ]);
  t.match(fed[0]?.leftOut, [/visibility has the unit "wmoUnit:furlong"/]);
  t.match(await json('/observations?station=KMID'), {
    data: {
      temperature: 10,
      windSpeed: 36,
      precipitation1h: 5.1,
      seaLevelPressure: 101300,
      visibility: null,
    },
  });
});

finding('a page names alerts with an unknown place even if others are known to apply', async (t, world) => {
  const placed = alert('placed', { geometry: box(-96, 34, -94, 36) });
  const { get } = await world(t, [station, poll(placed, alert('lost', { ugc: ['OKZ999'] }))]);
  const page = await get('/weather/stations/KMID');
  t.match(page, /area of placed/);
  t.match(page, /1 alert may apply here, but its exact area is unknown/);
  t.match(
    await get('/weather/'),
    /Not on the map, because their areas are unknown: Tornado Warning \(area of lost\)/,
  );
});

finding('a test is never shown as a warning', async (t, world) => {
  const geometry = box(-96, 34, -94, 36);
  const event = 'Tsunami Warning';
  const signs: AlertOptions[] = [
    { parameters: { VTEC: ['/T.NEW.PAAQ.TS.W.9001.260120T1700Z-260120T2300Z/'] } },
    { properties: { status: 'Exercise' } },
    { properties: { description: 'THIS MESSAGE IS FOR TEST PURPOSES ONLY.' } },
    { properties: { headline: 'This is a test of the system' } },
  ];
  for (const sign of signs) {
    const one = alert('test', { geometry, ...sign, properties: { event, ...sign.properties } });
    const { get, json } = await world(t, [station, poll(one)]);
    t.match(
      await json('/alerts'),
      { data: { total: 0, alerts: { length: 0 }, tests: [{ id: 'test' }] } },
      JSON.stringify(sign),
    );
    t.match(await get('/alerts?format=text'), /TEST, not a warning: Tsunami Warning/);
    t.match(await get('/weather/stations/KMID'), /Test, not a warning: Tsunami Warning/);
    t.match(await get('/alerts/test?format=text'), /^TEST, not a warning: TSUNAMI WARNING/);
  }
  const words = { event, description: 'This is not a test.' };
  // Class X: an experimental code in an operational product. One code of several does not make a test.
  for (const codes of [[], ['/X'], ['/T', '/O']]) {
    const VTEC = codes.map((product) => `${product}.NEW.PAAQ.TS.W.9001.260120T1700Z-260120T2300Z/`);
    const real = alert('real', { geometry, properties: words, parameters: { VTEC } });
    t.match(await (await world(t, [poll(real)])).json('/alerts'), {
      data: { total: 1, tests: { length: 0 } },
    });
  }
});

finding('an invalid value is rejected in every format and on the map', async (t, world) => {
  const hot = observation({
    temperature: value(148.9, 'wmoUnit:degC', 'X'),
    dewpoint: value(3, 'wmoUnit:degC'),
  });
  const { get } = await world(t, [['KMID.json', hot]]);
  for (const path of [
    '/observations?station=KMID',
    '/observations?station=KMID&format=text',
    '/observations?station=KMID&format=csv',
    '/observations?station=KMID&format=geojson',
    '/observations/history?station=KMID&format=xml',
    '/current-conditions?station=KMID',
    '/weather/',
    '/weather/stations/KMID',
  ])
    t.notMatch(await get(path), /148\.9|300\.?\d* ?°?F|>300</, path);
});

finding('an alert that an Update expired is not shown twice', async (t, world) => {
  const expiredReferences = ['w-nws.webmaster@noaa.gov,first,2026-01-20T16:00:00-00:00'];
  const update = alert('second', {
    properties: { messageType: 'Update' },
    parameters: { expiredReferences },
  });
  const { json } = await world(t, [poll(alert('first', {}), update)]);
  t.same(idsOf(await json('/alerts')), ['second']);
});

finding('reads CAP 1.2 with a prefix, several areas, polygons and circles completely', async (t, world) => {
  const cap = `<?xml version="1.0"?><cap:alert xmlns:cap="urn:oasis:names:tc:emergency:cap:1.2"><cap:identifier>c1</cap:identifier>
    <cap:sender>s</cap:sender><cap:sent>2026-01-20T17:00:00-00:00</cap:sent><cap:status>Actual</cap:status><cap:msgType>Update</cap:msgType>
    <cap:references>s,c0,2026-01-20T16:00:00-00:00</cap:references><cap:info><cap:language>en-US</cap:language><cap:category>Met</cap:category>
    <cap:event>Flash Flood Warning</cap:event><cap:urgency>Immediate</cap:urgency><cap:severity>Severe</cap:severity><cap:certainty>Likely</cap:certainty>
    <cap:expires>2026-01-20T23:00:00-00:00</cap:expires>
    <cap:area><cap:areaDesc>one</cap:areaDesc><cap:polygon>34,-96 34,-94 36,-94 36,-96 34,-96</cap:polygon></cap:area>
    <cap:area><cap:areaDesc>two</cap:areaDesc><cap:circle>50,10 20</cap:circle></cap:area></cap:info></cap:alert>`;
  const { json } = await world(t, [['cap.xml', cap]]);
  t.match(await json('/alerts'), { data: { alerts: [{ areaDescription: 'one; two', references: ['c0'] }] } });
  for (const [point, ids] of [
    ['35,-95', ['c1']],
    ['50.1,10.1', ['c1']],
    ['51,10', []],
  ] as const)
    t.same(idsOf(await json(`/alerts?point=${point}`)), ids, point);
});

async function suite(t: Test, world: MakeWorld): Promise<void> {
  for (const [title, run] of findings) await t.test(title, (t) => run(t, world));
}
t.test('on an embedded database', (t) => onPglite(t, suite));
t.test('on a server', (t) => onPostgres(t, suite));
