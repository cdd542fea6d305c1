import {
  boolean,
  duration,
  endpoint,
  environmentName,
  id,
  integer,
  list,
  map,
  matching,
  path,
  size,
} from '../../lib/settings/kinds.ts';
import type { ResolvedBy } from '../../lib/settings/setting.ts';

/** Declares how often to request a kind of document. The default is about how often it is updated. */
function interval(every: string) {
  return duration({ atLeast: '10s', atMost: '24h' })
    .default(every)
    .description('Interval between requests for these documents.');
}

const state = matching(/^[A-Z]{2}$/, 'the two letters of a state or a marine area, such as NY');
const office = matching(/^[A-Z]{3}$/, 'the three letters of an office, such as OKX');

const nws = map({
  user_agent: matching(
    /^(?=.*(@|:\/\/))[\u0020-\u007e]{3,256}$/,
    'a program and whom to write to, such as "example.org weather (ops@example.org)"',
  )
    .required()
    .description(
      'User-Agent of every request, with the contact that the service requires, such as "example.org weather (ops@example.org)".',
    )
    .example('example.org weather (ops@example.org)'),
  base_url: endpoint()
    .default('https://api.weather.gov')
    .description('URL of the National Weather Service API or a mirror.'),
  spc_base_url: endpoint()
    .default('https://www.spc.noaa.gov')
    .description('URL of the Storm Prediction Center, for outlook areas.'),
  alerts: map({
    areas: list(state, { min: 0, expected: 'a list of states or marine areas' })
      .default([])
      .description('States and marine areas of the requested alerts.'),
    zones: list(matching(/^[A-Z]{2}[CZ]\d{3}$/, 'the UGC code of a zone or county, such as NYZ072'), {
      min: 0,
      expected: 'a list of zones or counties',
    })
      .default([])
      .description('Zones and counties of the requested alerts, instead of areas.'),
  }).description('Active alerts. {} requests all.'),
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
    .description('Requests the discussions of the outlooks (SWO).'),
  places: map({
    stations: list(state, { min: 0, expected: 'a list of states or territories' })
      .default([])
      .description('States whose stations are loaded.'),
    zones: list(state, { min: 0, expected: 'a list of states or marine areas' })
      .default([])
      .description('States and marine areas whose zones, counties and fire-weather zones are loaded.'),
    offices: list(office, { min: 0, expected: 'a list of offices' })
      .default([])
      .description('Offices whose name and state are loaded. Their coordinates must come from a table.'),
  })
    .default()
    .description('Places, for lists by name, state and distance, and for the areas of alerts.'),
  intervals: map({
    alerts: interval('1m'),
    observations: interval('5m'),
    forecasts: interval('15m'),
    forecast_discussions: interval('10m'),
    weather_stories: interval('15m'),
    outlooks: interval('10m'),
    places: interval('24h'),
  })
    .default()
    .description('Interval for each kind of document. --interval overrides them.'),
  concurrency: integer(1, 32).default(4).description('Maximum concurrent requests.'),
  timeout: duration({ atLeast: '1s', atMost: '10m' }).default('30s').description('Time limit for a request.'),
  max_body: size({ atLeast: 1024 }).default('32MiB').description('Maximum size of a response.'),
}).description('Requests to the National Weather Service.');

export const feed = map({
  database: id().description('Name of the database to write to. Default: the first.'),
  url_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, with the URL of a role that can write. Default: the role of the database.',
    )
    .example('WEATHER_FEED_URL'),
  watch: map({
    directory: path()
      .required()
      .description('Directory whose files are loaded, with subdirectories, and reloaded when they change.')
      .example('./downloads'),
    settle: duration({ atLeast: '100ms', atMost: '10m' })
      .default('2s')
      .description('How long a file must be unchanged before it is loaded.'),
  }).description('Documents from other programs.'),
  nws,
}).description('Sources and target of waybill weather feed.');

/** The configuration of `waybill weather feed`, with its sources and database. */
export type FeedConfig = ResolvedBy<typeof feed>;
export type WatchConfig = NonNullable<FeedConfig['watch']>;
export type NwsConfig = NonNullable<FeedConfig['nws']>;

/** The kinds of documents that the feeder requests. Each has its own interval. */
export type SourceName = keyof NwsConfig['intervals'] extends `${infer Name}Ms` ? Name : never;
