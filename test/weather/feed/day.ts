import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { NwsConfig } from '../../../src/core/config/weather/feed.ts';
import type { Moment } from './nws-server.ts';

/**
 * A day of the service, made of the recorded samples: each time changes the documents that would change in
 * reality. Values that are not in the samples are derived from them, so that the same station reports
 * several values.
 */
const samples = 'test/fixtures/weather';

interface Feature {
  properties: Record<string, unknown>;
}
interface Collection {
  features: Feature[];
  [key: string]: unknown;
}

export const paths = {
  alerts: '/alerts/active?status=actual',
  knyc: '/stations/KNYC/observations?limit=12',
  pabr: '/stations/PABR/observations?limit=12',
  forecast: '/gridpoints/OKX/33,35/forecast',
  hourly: '/gridpoints/OKX/33,35/forecast/hourly',
  discussions: '/products/types/AFD/locations/OKX',
  mkx: '/offices/MKX/weatherstories',
  bgm: '/offices/BGM/weatherstories',
  categories: '/products/outlook/day1otlk_cat.nolyr.geojson',
  tornado: '/products/outlook/day1otlk_torn.nolyr.geojson',
  wind: '/products/outlook/day1otlk_wind.nolyr.geojson',
  hail: '/products/outlook/day1otlk_hail.nolyr.geojson',
  outlookDiscussions: '/products/types/SWO',
  stations: '/stations?state=NY&limit=500',
  stations2: '/stations?state=NY&limit=500&cursor=eyJzIjo1MDB9%2B',
  stations3: '/stations?state=NY&limit=500&cursor=eyJzIjoxMDAwfQ%3D%3D',
  zones: '/zones/forecast?area=NY&include_geometry=true',
  counties: '/zones/county?area=NY&include_geometry=true',
  fireZones: '/zones/fire?area=NY&include_geometry=true',
  office: '/offices/OKX',
} as const;

/** Only a table has the locations of offices. */
export const officeTable = 'office,name,latitude_deg,longitude_deg,state\nOKX,Upton,40.8656,-72.8642,\n';

/** Requests to the service, as in the configuration. */
export function nwsYaml(url: string, offices: readonly string[] = []): string {
  return `{
    user_agent: "waybill tests (ops@example.org)", base_url: "${url}", spc_base_url: "${url}",
    alerts: {}, stations: [KNYC, PABR], locations: ["OKX/33,35"], forecast_discussions: [OKX],
    weather_stories: [MKX, BGM], outlooks: [1], outlook_discussions: true,
    places: { stations: [NY], zones: [NY], offices: [${offices.join(', ')}] } }`;
}

/** The same, resolved. */
export function nwsConfig(url: string, offices: readonly string[] = []): NwsConfig {
  const minute = 60_000;
  return {
    userAgent: 'waybill tests (ops@example.org)',
    baseUrl: url,
    spcBaseUrl: url,
    alerts: { areas: [], zones: [] },
    stations: ['KNYC', 'PABR'],
    locations: ['OKX/33,35'],
    forecastDiscussions: ['OKX'],
    weatherStories: ['MKX', 'BGM'],
    outlooks: [1],
    outlookDiscussions: true,
    places: { stations: ['NY'], zones: ['NY'], offices: [...offices] },
    intervals: {
      alertsMs: minute,
      observationsMs: minute,
      forecastsMs: minute,
      forecastDiscussionsMs: minute,
      weatherStoriesMs: minute,
      outlooksMs: minute,
      placesMs: minute,
    },
    concurrency: 4,
    timeoutMs: 10_000,
    maxBody: 10_000_000,
  };
}

/** The times of the day. Each changes documents of the previous one. */
export function dayOfChanges(): Moment[] {
  const documents = new Map<string, string>(morning());
  const moments: Moment[] = [];
  const at = (time: string, changes: Record<string, string>): void => {
    for (const [name, text] of Object.entries(changes)) documents.set(name, text);
    moments.push({ at: new Date(`2026-09-13T${time}:00Z`), documents: new Map(documents) });
  };
  at('06:00', {});
  at('07:00', {
    [paths.knyc]: observations(observed('17:51', 0), observed('18:51', 1.5)),
    [paths.alerts]: alerts('2026-09-13T06:59:00Z', 1, 3),
  });
  // A correction of an hour-old product, and a new forecast.
  at('08:00', {
    [paths.knyc]: observations(observed('17:51', 0), observed('18:51', 2, 'BKN')),
    [paths.hourly]: forecast('2026-01-20T19:13:40+00:00'),
    // Behind an unchanged page.
    [paths.stations2]: places([station('KLGA', 'LaGuardia', -73.88, 40.7792)], 'eyJzIjoxMDAwfQ=='),
  });
  at('09:00', {
    [paths.alerts]: alerts('2026-09-13T08:59:00Z', 0, 0),
    ...product(
      paths.discussions,
      'forecast_discussions/KOKX_AFD_20240806_b60036c1.json',
      '2026-09-13T08:30:00Z',
    ),
    [paths.mkx]: stories(1),
  });
  // The outlook is issued again with one area less, together with its discussion.
  at('10:00', {
    [paths.categories]: outlook('outlooks/day1otlk_cat.nolyr.geojson.json', '202605171630', 3),
    ...product(paths.outlookDiscussions, 'outlooks/swo-day1-moderate.json', '2026-09-13T09:40:00Z'),
    [paths.alerts]: read('alerts/active_20251215_mixed13.json'),
    [paths.zones]: places([zone('NYZ072', 0.02), zone('NYZ075', 0.01)]),
    [paths.office]: office('New York, NY'),
  });
  at('11:00', {});
  // The list of alerts is generated again with the same content.
  at('12:00', {
    [paths.alerts]: relisted(read('alerts/active_20251215_mixed13.json'), '2026-09-13T11:59:00Z'),
  });
  return moments;
}

function morning(): [string, string][] {
  const pabr = read('observations/PABR_freezing_fog_VV.json');
  return [
    [paths.alerts, alerts('2026-09-13T05:59:00Z', 2, 3)],
    [paths.knyc, observations(observed('17:51', 0))],
    [paths.pabr, pabr],
    [paths.forecast, read('forecast_narrative/OKX_33_35_forecast_20260120.json')],
    [paths.hourly, read('forecast_hourly/OKX_33_35_hourly_20260120.json')],
    [paths.mkx, stories(2)],
    [paths.bgm, read('weather_stories/BGM_no_stories.json')],
    [paths.categories, read('outlooks/day1otlk_cat.nolyr.geojson.json')],
    [paths.tornado, read('outlooks/arcgis_day1_prob_tornado.geojson.json')],
    [paths.wind, read('outlooks/arcgis_day1_prob_wind.geojson.json')],
    [paths.hail, read('outlooks/arcgis_day1_prob_hail.geojson.json')],
    ...Object.entries(
      product(paths.discussions, 'forecast_discussions/OKX_AFD_20260120.json', '2026-01-20T14:35:00Z'),
    ),
    ...Object.entries(
      product(paths.outlookDiscussions, 'outlooks/swo-day1-no-severe.json', '2018-03-31T19:35:00Z'),
    ),
    [
      paths.stations,
      places(
        [
          station('KNYC', 'New York City, Central Park', -73.96667, 40.78333),
          station('KJFK', 'New York, Kennedy International Airport', -73.7622, 40.6386),
        ],
        'eyJzIjo1MDB9+',
      ),
    ],
    [paths.stations2, places([station('KLGA', 'La Guardia', -73.88, 40.7792)], 'eyJzIjoxMDAwfQ==')],
    // The service has a page after the last one.
    [paths.stations3, places([], 'eyJzIjoxNTAwfQ==')],
    [paths.zones, places([zone('NYZ072', 0), zone('NYZ075', 0.01)])],
    [paths.counties, places([zone('NYC061', 0)])],
    [paths.fireZones, places([zone('NYZ072', 0.03, 'fire')])],
    [paths.office, office('New York')],
  ];
}

export function read(file: string): string {
  return readFileSync(path.join(samples, file), 'utf8');
}

function collectionOf(file: string): Collection {
  const parsed = JSON.parse(read(file)) as Collection | Feature;
  return 'features' in parsed ? parsed : { type: 'FeatureCollection', features: [parsed] };
}

/** The sample of KNYC at another time, with another temperature. */
function observed(time: string, warmer: number, cloud?: string): Feature {
  const [feature] = structuredClone(collectionOf('observations/KNYC_latest_20260120.json').features);
  const { properties } = feature as Feature;
  const temperature = properties['temperature'] as { value: number };
  properties['timestamp'] = `2026-01-20T${time}:00+00:00`;
  properties['temperature'] = { ...temperature, value: temperature.value + warmer };
  if (cloud !== undefined)
    properties['cloudLayers'] = [
      { base: { value: 900 }, amount: cloud },
      { base: { value: 1500 }, amount: 'OVC' },
    ];
  return feature as Feature;
}

function observations(...features: Feature[]): string {
  return JSON.stringify({ type: 'FeatureCollection', features });
}

/** The chain of a tornado watch: the alerts of the sample from index `from` to before `to`. */
function alerts(updated: string, from: number, to: number): string {
  const { features } = collectionOf('alerts/MOB_chain_alert_update_cancel_20251125.json');
  const title = 'Current watches, warnings, and advisories';
  return JSON.stringify({ type: 'FeatureCollection', title, updated, features: features.slice(from, to) });
}

function relisted(text: string, updated: string): string {
  return JSON.stringify({ ...(JSON.parse(text) as Collection), updated });
}

function forecast(generatedAt: string): string {
  const document = JSON.parse(read('forecast_hourly/OKX_33_35_hourly_20260120.json')) as Feature;
  return JSON.stringify({ ...document, properties: { ...document.properties, generatedAt } });
}

function stories(count: number): string {
  const document = JSON.parse(read('weather_stories/MKX_20260912.json')) as { stories: unknown[] };
  return JSON.stringify({ ...document, stories: document.stories.slice(0, count) });
}

function outlook(file: string, issue: string, count: number): string {
  const { features, ...rest } = collectionOf(file);
  const issued = features
    .slice(0, count)
    .map((feature) => ({ ...feature, properties: { ...feature.properties, ISSUE: issue } }));
  return JSON.stringify({ ...rest, features: issued });
}

/** A list of places in the format of the service. Its links refer to the real one. */
function places(features: object[], cursor?: string): string {
  const next = `https://api.weather.gov/stations?state=NY&limit=500&cursor=${encodeURIComponent(cursor ?? '')}`;
  return JSON.stringify({
    type: 'FeatureCollection',
    features,
    ...(cursor === undefined ? {} : { pagination: { next } }),
  });
}

function station(stationIdentifier: string, name: string, longitude: number, latitude: number): object {
  return {
    type: 'Feature',
    geometry: { type: 'Point', coordinates: [longitude, latitude] },
    properties: {
      '@type': 'wx:ObservationStation',
      elevation: { unitCode: 'wmoUnit:m', value: 46.9392 },
      stationIdentifier,
      name,
      county: 'https://api.weather.gov/zones/county/NYC061',
    },
  };
}

/** An outline, enlarged by this much. */
function zone(id: string, larger: number, type = 'public'): object {
  const [west, east] = [-74.05 - larger, -73.9 + larger];
  const ring = [
    [west, 40.68],
    [east, 40.68],
    [east, 40.88],
    [west, 40.88],
    [west, 40.68],
  ];
  return {
    type: 'Feature',
    geometry: { type: 'Polygon', coordinates: [ring] },
    properties: { '@type': 'wx:Zone', id, type, name: `Zone ${id}`, state: 'NY' },
  };
}

function office(name: string): string {
  return JSON.stringify({
    '@type': 'GovernmentOrganization',
    '@id': 'https://api.weather.gov/offices/OKX',
    id: 'OKX',
    name,
    address: { '@type': 'PostalAddress', addressLocality: 'Upton', addressRegion: 'NY' },
    responsibleForecastZones: ['https://api.weather.gov/zones/forecast/NYZ072'],
  });
}

/** A list of products with one product, and the product itself. */
function product(list: string, file: string, issuanceTime: string): Record<string, string> {
  const document = JSON.parse(read(file)) as { id: string; productText: string };
  const { productText, ...listed } = { ...document, issuanceTime };
  return {
    [list]: JSON.stringify({ '@context': {}, '@graph': [listed] }),
    [`/products/${listed.id}`]: JSON.stringify({ ...listed, productText }),
  };
}
