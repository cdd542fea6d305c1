import {
  baseUrl,
  boolean,
  duration,
  environmentName,
  id,
  integer,
  list,
  map,
  matching,
  path,
  size,
} from '../../lib/settings/kinds.ts';
import type { AcceptedBy } from '../../lib/settings/setting.ts';
import {
  accepted,
  parseBaseUrl,
  type PathBase,
  resolveDuration,
  resolvePath,
  resolveSize,
} from '../../lib/settings/values.ts';

/** The configuration of `waybill weather feed`: its sources and its database. */
export interface FeedConfig {
  /** Name of the database; null: the first. */
  database: string | null;
  /** Variable that holds the URL of a role that may write; null for the URL of the database. */
  urlEnv: string | null;
  watch: WatchConfig | null;
  nws: NwsConfig | null;
}

export interface WatchConfig {
  /** Absolute. */
  directory: string;
  settleMs: number;
}

/** The kinds of data that the feed polls, each at its own interval. */
export type SourceName =
  'alerts' | 'observations' | 'forecasts' | 'forecastDiscussions' | 'weatherStories' | 'outlooks' | 'places';

export interface NwsConfig {
  userAgent: string;
  /** Base URL without a trailing slash, as for SPC. */
  baseUrl: string;
  spcBaseUrl: string;
  /** null: no alerts. Both lists empty: all active alerts. */
  alerts: { areas: readonly string[]; zones: readonly string[] } | null;
  stations: readonly string[];
  locations: readonly string[];
  forecastDiscussions: readonly string[];
  weatherStories: readonly string[];
  /** Days, 1 to 8. */
  outlooks: readonly number[];
  outlookDiscussions: boolean;
  /** Stations of these states, zones with outlines of these states and marine areas, and these offices. */
  places: { stations: readonly string[]; zones: readonly string[]; offices: readonly string[] };
  intervalsMs: Readonly<Record<SourceName, number>>;
  /** Maximum number of concurrent requests. */
  concurrency: number;
  timeoutMs: number;
  /** Bytes of an answer, decompressed. */
  maxBody: number;
}

/** The default polling interval of each source: about its update interval. */
const intervals: Readonly<Record<SourceName, { setting: string; every: string }>> = {
  alerts: { setting: 'alerts', every: '1m' },
  observations: { setting: 'observations', every: '5m' },
  forecasts: { setting: 'forecasts', every: '15m' },
  forecastDiscussions: { setting: 'forecast_discussions', every: '10m' },
  weatherStories: { setting: 'weather_stories', every: '15m' },
  outlooks: { setting: 'outlooks', every: '10m' },
  places: { setting: 'places', every: '24h' },
};
const sources = Object.entries(intervals) as [SourceName, { setting: string; every: string }][];

const state = matching(/^[A-Z]{2}$/, 'the two letters of a state or a marine area, such as NY');
const office = matching(/^[A-Z]{3}$/, 'the three letters of an office, such as OKX');

const nws = map({
  user_agent: matching(
    /^(?=.*(@|:\/\/))[\u0020-\u007e]{3,256}$/,
    'a program and whom to write to, such as "example.org weather (ops@example.org)"',
  )
    .required()
    .description('User-Agent of every request. The service requires a contact in it.')
    .example('example.org weather (ops@example.org)'),
  base_url: baseUrl()
    .default('https://api.weather.gov')
    .description('URL of the National Weather Service API, or of a mirror.'),
  spc_base_url: baseUrl()
    .default('https://www.spc.noaa.gov')
    .description('URL of the Storm Prediction Center, which serves the outlook areas.'),
  alerts: map({
    areas: list(state, { min: 0, expected: 'a list of states or marine areas' })
      .default([])
      .description('Requests only alerts of these states and marine areas.'),
    zones: list(matching(/^[A-Z]{2}[CZ]\d{3}$/, 'the UGC code of a zone or county, such as NYZ072'), {
      min: 0,
      expected: 'a list of zones or counties',
    })
      .default([])
      .description('Requests only alerts of these zones and counties, and ignores areas.'),
  }).description('Active alerts. {} requests all of them.'),
  stations: list(matching(/^[A-Z0-9]{3,8}$/, 'the id of a station, such as KNYC'), {
    min: 0,
    expected: 'a list of stations',
  })
    .default([])
    .description('Stations whose observations are requested.'),
  locations: list(matching(/^[A-Z]{3}\/\d{1,3},\d{1,3}$/, 'a grid point, such as OKX/33,35'), {
    min: 0,
    expected: 'a list of grid points',
  })
    .default([])
    .description('Grid points whose hourly and narrative forecasts are requested.'),
  forecast_discussions: list(office, { min: 0, expected: 'a list of offices' })
    .default([])
    .description('Offices whose forecast discussions (AFD) are requested.'),
  weather_stories: list(office, { min: 0, expected: 'a list of offices' })
    .default([])
    .description('Offices whose weather stories are requested.'),
  outlooks: list(integer(1, 8), { min: 0, expected: 'a list of days, 1 to 8' })
    .default([])
    .description('Days whose convective outlooks are requested.'),
  outlook_discussions: boolean()
    .default(false)
    .description('Requests the discussions of the convective outlooks (SWO).'),
  places: map({
    stations: list(state, { min: 0, expected: 'a list of states or territories' })
      .default([])
      .description('States whose stations are loaded.'),
    zones: list(state, { min: 0, expected: 'a list of states or marine areas' })
      .default([])
      .description(
        'States and marine areas whose forecast zones, counties and fire-weather zones are loaded, with their outlines.',
      ),
    offices: list(office, { min: 0, expected: 'a list of offices' })
      .default([])
      .description('Offices whose name and state are loaded. Their coordinates must come from a table.'),
  })
    .default()
    .description('Places: used for lists by name, state and distance, and for the areas of alerts.'),
  intervals: map(
    Object.fromEntries(
      sources.map(([, { setting, every }]) => [
        setting,
        duration({ atLeast: '10s', atMost: '24h' })
          .default(every)
          .description('Interval between requests for these documents.'),
      ]),
    ),
  )
    .default()
    .description('Interval for each kind of document. --interval overrides all of them.'),
  concurrency: integer(1, 32).default(4).description('Maximum number of concurrent requests.'),
  timeout: duration({ atLeast: '1s', atMost: '10m' })
    .default('30s')
    .description('Time limit for one request, including its response.'),
  max_body: size({ atLeast: 1024 })
    .default('32MiB')
    .description('Maximum size of a response after decompression.'),
}).description('Requests to the National Weather Service.');

export const feed = map({
  database: id().description('Name of the database to write to. Default: the first of databases.'),
  url_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, with the URL of a role that can write. Default: the url_env of the database.',
    )
    .example('WEATHER_FEED_URL'),
  watch: map({
    directory: path()
      .required()
      .description(
        'Directory whose files are loaded, including its subdirectories, and reloaded when they change.',
      )
      .example('./downloads'),
    settle: duration({ atLeast: '100ms', atMost: '10m' })
      .default('2s')
      .description('How long a file must be unchanged before it is loaded.'),
  }).description('A directory into which other programs put documents.'),
  nws,
}).description('Sources and target of waybill weather feed.');

export function resolveFeed(document: AcceptedBy<typeof feed>, base: PathBase): FeedConfig {
  const { database = null, url_env: urlEnv = null, watch } = document;
  return {
    database,
    urlEnv,
    watch:
      watch === undefined
        ? null
        : { directory: resolvePath(watch.directory, base), settleMs: resolveDuration(watch.settle) },
    nws: document.nws === undefined ? null : resolveNws(document.nws),
  };
}

function resolveNws(document: AcceptedBy<typeof nws>): NwsConfig {
  const withoutSlash = (url: string): string => accepted(parseBaseUrl(url)).replace(/\/+$/, '');
  return {
    userAgent: document.user_agent,
    baseUrl: withoutSlash(document.base_url),
    spcBaseUrl: withoutSlash(document.spc_base_url),
    alerts: document.alerts ?? null,
    stations: document.stations,
    locations: document.locations,
    forecastDiscussions: document.forecast_discussions,
    weatherStories: document.weather_stories,
    outlooks: document.outlooks,
    outlookDiscussions: document.outlook_discussions,
    places: document.places,
    intervalsMs: Object.fromEntries(
      sources.map(([name, { setting }]) => [name, resolveDuration(document.intervals[setting] ?? '')]),
    ) as Record<SourceName, number>,
    concurrency: document.concurrency,
    timeoutMs: resolveDuration(document.timeout),
    maxBody: resolveSize(document.max_body),
  };
}
