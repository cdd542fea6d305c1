import { readFileSync } from 'node:fs';
import t from 'tap';
import { sameByUgc } from '../../../src/weather/feed/documents/alert-rows.ts';
import { recognise, type Recognised } from '../../../src/weather/feed/documents/recognise.ts';
import { BrokenDocument, NothingToLoad, reasonOf } from '../../../src/weather/feed/documents/rows.ts';
import { timeZoneAt } from '../../../src/weather/places/position.ts';

const samples = 'test/fixtures/weather';

interface Tree {
  [key: string]: Tree;
  [index: number]: Tree;
}

/** A sample with one change. */
function changed(file: string, change: (document: Tree) => void): string {
  const document = JSON.parse(readFileSync(`${samples}/${file}`, 'utf8')) as Tree;
  change(document);
  return JSON.stringify(document);
}

function reasonFor(text: string, name = 'document.json'): string {
  try {
    recognise(text, name);
  } catch (error) {
    return reasonOf(error);
  }
  return 'it was taken';
}

const alertsFile = 'alerts/active_20251215_mixed13.json';
const observationFile = 'observations/KNYC_latest_20260120.json';

t.test('uses the local time zones', async (t) => {
  const places: [number, number, string][] = [
    [71.3, -156.78, 'America/Anchorage'], // PABR, whose longitude would be in Hawaii
    [21.35, -157.93, 'Pacific/Honolulu'],
    [51.88, -176.65, 'America/Adak'],
    [40.77, -73.98, 'America/New_York'],
    [33.43, -112.0, 'America/Phoenix'],
    [39.73, -86.27, 'America/Indiana/Indianapolis'],
    [18.43, -66.0, 'America/Puerto_Rico'],
    [13.48, 144.8, 'Pacific/Guam'],
  ];
  for (const [latitude, longitude, zone] of places) t.equal(timeZoneAt(latitude, longitude), zone);
});

t.test('reports a broken document with the error and its location', async (t) => {
  const cases: [string, string, RegExp][] = [
    ['no JSON', '{"features": [', /^it is not JSON: /],
    [
      'no station',
      changed(observationFile, (d) => delete d['properties']!['station']),
      /^properties\.station is missing$/,
    ],
    [
      'no time',
      changed(observationFile, (d) => Object.assign(d['properties']!, { timestamp: 'noon' })),
      /^properties\.timestamp is "noon", which is not a time$/,
    ],
    [
      'a DOCTYPE',
      '<?xml version="1.0"?><alert xmlns="x"><!DOCTYPE a [<!ENTITY b "c">]></alert>',
      /^it has a DOCTYPE$/,
    ],
    ['an alert without anything', '<alert xmlns="x"></alert>', /^identifier is missing$/],
    ['a web page', '<!-- down --><!DOCTYPE html><html><body>Maintenance</body></html>', /^it is a web page/],
    ['a web page without a type', '\n<HTML lang="en"></HTML>', /^it is a web page/],
    ['nothing', ' \n', /^it is empty$/],
    ['arrays without end', '['.repeat(200_000), /^it is not JSON|^its structure is unknown/],
  ];
  for (const [name, text, reason] of cases) t.match(reasonFor(text, 'day1otlk_torn.json'), reason, name);
});

t.test('distinguishes unused documents from broken ones', async (t) => {
  for (const file of [
    'errors/AFG_weatherstories_500_in_200.json',
    'errors/nws_problem_404_20260120.json',
    'observations/PPIZ_no_observations.json',
    'alerts/SJU_marine_spanish_20130107.txt',
    'outlooks/PTSDY3_CIG1.txt',
  ])
    t.throws(() => recognise(readFileSync(`${samples}/${file}`, 'utf8'), file), NothingToLoad, file);
  t.throws(() => recognise('{', 'x.json'), SyntaxError);
  t.throws(() => recognise('The service is down.', 'x.txt'), NothingToLoad, 'an unrelated file');
  t.throws(() => recognise('The service is down.', 'x', new Date()), BrokenDocument, 'an answer is JSON');
});

t.test('an invalid field of an alert is noted, and an invalid end is omitted', async (t) => {
  const text = changed(alertsFile, (d) => {
    delete d['features']![3]!['properties']!['sent'];
    Object.assign(d['features']![5]!['properties']!, { severity: 'Worst' });
    Object.assign(d['features']![7]!['properties']!['geocode']!, { UGC: ['nowhere'] });
    delete d['features']![7]!['properties']!['affectedZones'];
    delete d['features']![8]!['properties']!['id'];
    delete d['features']![8]!['id'];
  });
  const whole = recognise(readFileSync(`${samples}/${alertsFile}`, 'utf8'), 'alerts.json');
  const rest = recognise(text, 'alerts.json');
  t.same(whole.leftOut, []);
  t.same(rest.leftOut, [
    'features[3]: sent is missing; read as unknown',
    'features[5]: severity is "Worst", expected one of Extreme, Severe, Moderate, Minor, Unknown; read as unknown',
    'features[7]: geocode has "nowhere", which names no zone; this area is unknown',
    'features[8]: properties.id is missing',
  ]);
  t.equal(alertsIn(rest), alertsIn(whole));
  const none = changed(alertsFile, (d) => {
    for (const feature of Object.values(d['features']!)) {
      delete feature['properties']!['id'];
      delete feature['id'];
    }
  });
  t.throws(() => recognise(none, 'alerts.json'), BrokenDocument);
});

t.test('every SAME code of an alert is assigned to one of its areas, its own if it is named', async (t) => {
  const of = (ugcs: string[], codes: string[]): object => Object.fromEntries(sameByUgc(ugcs, codes));
  t.same(of(['ALC013', 'ALC129'], ['001129', '001013']), { ALC013: '001013', ALC129: '001129' });
  t.same(of(['LMZ740', 'LMZ741'], ['092740']), { LMZ740: '092740', LMZ741: null }, 'marine zones');
  t.same(
    of(['MTZ030', 'MTZ307', 'IDZ001'], ['030030', '016001', '030073', '030073']),
    { MTZ030: '030030 030073', MTZ307: null, IDZ001: '016001' },
    'the number of a land zone is not a county',
  );
  t.same(of(['ALZ051'], ['128153', 'LMZ740', '12345']), { ALZ051: '128153' }, 'of another state, or none');
  t.same(of(['NYC061', 'NYZ072'], ['136061']), { NYC061: '136061', NYZ072: null }, 'a part of a county');
  t.same(of([], ['036061']), {});
  for (const file of [alertsFile, 'alerts/MOB_chain_alert_update_cancel_20251125.json']) {
    const text = readFileSync(`${samples}/${file}`, 'utf8');
    const codes = (JSON.parse(text) as Tree)['features'] as unknown as Tree[];
    const [record] = recognise(text, 'alerts.json').records;
    if (record?.family !== 'alerts') throw new Error('no alerts');
    t.ok(codes.length > 5 && codes.length === record.alerts.length);
    for (const [index, { areas }] of record.alerts.entries()) {
      const said = codes[index]?.['properties']?.['geocode']?.['SAME'] as unknown as string[];
      const stored = areas.flatMap(({ same }) => (typeof same === 'string' ? same.split(' ') : []));
      t.same(stored.sort(), [...new Set(said)].sort());
    }
  }
});

t.test('a partial list of alerts does not count as a poll', async (t) => {
  const text = readFileSync(`${samples}/alerts/MOB_chain_alert_update_cancel_20251125.json`, 'utf8');
  t.equal(alertsIn(recognise(text, 'alerts.json')), 9);
  t.throws(() => recognise(text, 'alerts.json', new Date()), /pagination\.next names a further page/);
});

t.test('a hazard without any risk is stored as known to be empty', async (t) => {
  const text = changed('outlooks/day1otlk_cat.nolyr.geojson.json', (d) => {
    const first = d['features']![0];
    Object.assign(first!['properties']!, { LABEL: '', LABEL2: '' });
    d['features'] = [
      { ...first, geometry: { type: 'GeometryCollection', geometries: [] } },
    ] as unknown as Tree;
  });
  t.match(recognise(text, 'day1otlk_torn.nolyr.geojson').records, [
    { family: 'outlook', run: { day: 1 }, areas: [{ hazard: 'tornado', label: 'NONE', rank: 0 }] },
  ]);
});

function alertsIn({ records: [record] }: Recognised): number {
  return record?.family === 'alerts' ? record.alerts.length : 0;
}
