import type { AlertsQuery } from '../../core/weather/queries.ts';
import type { Reading, WeatherReader } from '../../core/weather/reader.ts';
import type { TemplateName } from '../../core/weather/render/text.ts';
import { atMostOneOf, weatherParameters, type WeatherParameters } from './parameters.ts';
import {
  choice,
  choices,
  flag,
  formatParameter,
  identifier,
  identifiers,
  names,
  unitsParameter,
  wholeNumber,
} from './values.ts';

/** One endpoint of the reader. `Q` is its query as the URL has it, without `format`. */
export interface WeatherEndpoint<Q extends object = object> {
  path: string;
  operationId: string;
  summary: string;
  template: TemplateName;
  /** Seconds; an answer without data counts as one of alerts. */
  maxAge: number;
  parameters: WeatherParameters<Q & { format: string | null }>;
  read: (reader: WeatherReader, query: Q) => Promise<Reading<object>>;
}

const station = /^[A-Z0-9]{3,8}$/;
const office = identifier(/^[A-Z]{3}$/, 'the three letters of a forecast office, such as OKX', {
  description: 'A forecast office. Without it: the newest of any.',
  example: 'OKX',
});
const location = identifier(
  /^[A-Z]{3}\/\d{1,3},\d{1,3}$/,
  'a grid cell: office, slash, x, comma, y, such as OKX/33,35',
  { description: 'A grid cell of a forecast office. Without it: the newest of any.', example: 'OKX/33,35' },
);
const day = wholeNumber(1, 8, 1, { description: 'Day of the outlook; 1 is today.' });
const format = formatParameter;
const units = unitsParameter;

const observations = endpoint({
  path: '/observations',
  operationId: 'getObservation',
  summary: 'The newest observation of a station, or of any',
  template: 'observations',
  maxAge: 60,
  parameters: weatherParameters({
    station: identifier(station, 'a station, such as KNYC', {
      description: 'A station. Without it: the newest observation of any.',
      example: 'KNYC',
    }),
    units,
    format,
  }),
  read: (reader, query) => reader.observations(query),
});

const currentConditions = endpoint({
  path: '/current-conditions',
  operationId: 'getCurrentConditions',
  summary: 'Current conditions, field by field from the newest good observations',
  template: 'current_conditions',
  maxAge: 60,
  parameters: weatherParameters({
    station: identifiers(station, 5, 'a station, such as KNYC', {
      description: 'Up to five stations with commas between, in the order of their priority.',
      example: 'KNYC,KLGA',
    }),
    maxAge: wholeNumber(10, 360, 90, { description: 'How old an observation may be, in minutes.' }),
    units,
    format,
  }),
  read: (reader, { station: stations, maxAge: maxAgeMinutes, units: system }) =>
    reader.currentConditions({ stations, maxAgeMinutes, units: system }),
});

interface AlertsParameters extends Pick<AlertsQuery, 'limit'> {
  zone: readonly string[];
  area: string | null;
  office: string | null;
  severity: AlertsQuery['severities'];
  event: readonly string[];
}

const alerts = endpoint<AlertsParameters>({
  path: '/alerts',
  operationId: 'listAlerts',
  summary: 'The alerts that are in force',
  template: 'active_alerts',
  maxAge: 15,
  parameters: weatherParameters(
    {
      zone: identifiers(/^[A-Z]{2}[CZ]\d{3}$/, 50, 'a UGC code, such as NYZ072', {
        description: 'Up to 50 zones or counties (UGC codes) with commas between.',
        example: 'NYZ072,NYC061',
      }),
      area: identifier(/^[A-Z]{2}$/, 'two letters of a state or marine area, such as NY', {
        description: 'A state or marine area.',
        example: 'NY',
      }),
      office: identifier(/^[A-Z]{3}$/, 'the three letters of a forecast office, such as OKX', {
        description: 'The forecast office that issued the alert.',
        example: 'OKX',
      }),
      severity: choices(['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'], {
        description: 'Any of these severities, with commas between. Without it: all.',
        example: 'Extreme,Severe',
      }),
      event: names(50, 100, {
        description: 'Any of these events, in any case, with commas between. Without it: all.',
        example: 'Tornado Warning',
      }),
      limit: wholeNumber(1, 500, 100, { description: 'Most alerts in the answer; `total` counts all.' }),
      format,
    },
    [atMostOneOf('zone', 'area', 'office')],
  ),
  read: (reader, { zone, area, office: by, severity, event, limit }) =>
    reader.alerts({ area: whereOf(zone, area, by), severities: severity, events: event, limit }),
});

const hourlyForecasts = endpoint({
  path: '/forecasts/hourly',
  operationId: 'getHourlyForecast',
  summary: 'The newest hourly forecast',
  template: 'hourly_forecasts',
  maxAge: 300,
  parameters: weatherParameters({
    location,
    hours: wholeNumber(1, 168, 48, { description: 'How many hours, from the first of the forecast.' }),
    units,
    format,
  }),
  read: (reader, query) => reader.hourlyForecasts(query),
});

const narrativeForecasts = endpoint({
  path: '/forecasts/narrative',
  operationId: 'getNarrativeForecast',
  summary: 'The newest forecast in words',
  template: 'narrative_forecasts',
  maxAge: 300,
  parameters: weatherParameters({
    location,
    periods: wholeNumber(1, 28, 14, { description: 'How many half days, from the first of the forecast.' }),
    units,
    format,
  }),
  read: (reader, query) => reader.narrativeForecasts(query),
});

const forecastDiscussions = endpoint({
  path: '/forecast-discussions',
  operationId: 'getForecastDiscussion',
  summary: 'The newest forecast discussion',
  template: 'forecast_discussions',
  maxAge: 120,
  parameters: weatherParameters({ office, format }),
  read: (reader, query) => reader.forecastDiscussions(query),
});

const weatherStories = endpoint({
  path: '/weather-stories',
  operationId: 'listWeatherStories',
  summary: 'The weather stories of a forecast office',
  template: 'weather_stories',
  maxAge: 180,
  parameters: weatherParameters({
    office,
    limit: wholeNumber(1, 20, 7, { description: 'Most stories in the answer.' }),
    format,
  }),
  read: (reader, query) => reader.weatherStories(query),
});

const convectiveOutlooks = endpoint({
  path: '/convective-outlooks',
  operationId: 'getConvectiveOutlook',
  summary: 'The convective outlook of a day',
  template: 'convective_outlooks',
  maxAge: 120,
  parameters: weatherParameters({
    day,
    hazard: choices(['categorical', 'tornado', 'wind', 'hail', 'any_severe'], {
      description: 'Any of these hazards, with commas between. Without it: all.',
      example: 'categorical,tornado',
    }),
    select: choice<'issued' | 'effective'>(['issued', 'effective'], 'issued', {
      description: '`issued`: the outlook issued last. `effective`: the last whose window holds this moment.',
    }),
    geometry: flag(true, { description: 'Whether areas come with their geometry.' }),
    format,
  }),
  read: (reader, { hazard: hazards, ...query }) => reader.convectiveOutlooks({ ...query, hazards }),
});

const outlookDiscussions = endpoint({
  path: '/convective-outlooks/discussions',
  operationId: 'getConvectiveOutlookDiscussion',
  summary: 'The discussion of the convective outlook of a day',
  template: 'convective_outlook_discussions',
  maxAge: 120,
  parameters: weatherParameters({ day, format }),
  read: (reader, query) => reader.outlookDiscussions(query),
});

/** The nine endpoints, in the order in which the document shows them. */
export const weatherEndpoints: readonly WeatherEndpoint[] = [
  observations,
  currentConditions,
  alerts,
  hourlyForecasts,
  narrativeForecasts,
  forecastDiscussions,
  weatherStories,
  convectiveOutlooks,
  outlookDiscussions,
];

/** Each endpoint takes just what its own parameters give; that is checked here, once, and forgotten. */
function endpoint<Q extends object>(one: WeatherEndpoint<Q>): WeatherEndpoint {
  return { ...one, read: (reader, query) => one.read(reader, query as Q) };
}

function whereOf(zones: readonly string[], area: string | null, office: string | null): AlertsQuery['area'] {
  if (zones.length > 0) return { kind: 'zones', zones };
  if (area !== null) return { kind: 'area', area };
  return office === null ? { kind: 'anywhere' } : { kind: 'office', office };
}
