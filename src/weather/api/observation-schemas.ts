import type { JsonSchema } from '../../api/http/route.ts';
import type { CurrentConditionsData } from '../records/current-conditions.ts';
import type { ObservationHistoryData } from '../records/observation-history.ts';
import type {
  CloudData,
  MeasuredData,
  ObservationData,
  PastObservationData,
  PresentWeatherData,
  StationData,
} from '../records/observation-record.ts';
import type { ObservationsData } from '../records/observations.ts';
import type { LocationsData, OfficesData, PlaceData, StationsData } from '../records/places.ts';
import type { ObservationUnits, PlaceUnits } from '../units.ts';
import {
  count,
  degreesEast,
  degreesNorth,
  flag,
  instantOf,
  listOf,
  oneOf,
  orNull,
  quantity,
  record,
  type SchemasOf,
  text,
  textOrNull,
  timeZone,
  unit,
} from './schema-fields.ts';

const station = record<StationData>({
  id: text('Identifier.', 'KNYC'),
  name: text('Name.', 'New York City, Central Park'),
  latitude: degreesNorth,
  longitude: degreesEast,
  elevation: quantity('Above sea level', 'm', 'ft'),
});
const measured: { [K in keyof MeasuredData]: JsonSchema } = {
  temperature: quantity('Air temperature', 'degC', 'degF'),
  dewpoint: quantity('Dewpoint', 'degC', 'degF'),
  relativeHumidity: quantity('Relative humidity', '%'),
  windDirection: quantity('Direction from which the wind blows, or null if calm', 'deg'),
  windSpeed: quantity('Wind speed', 'km/h', 'mph'),
  windGust: quantity('Gusts', 'km/h', 'mph'),
  altimeter: quantity('Altimeter setting', 'Pa', 'inHg'),
  seaLevelPressure: quantity('Pressure at sea level', 'Pa', 'inHg'),
  visibility: quantity('Visibility', 'm', 'mi'),
  temperatureMax24h: quantity('Highest of the last 24 hours', 'degC', 'degF'),
  temperatureMin24h: quantity('Lowest of the last 24 hours', 'degC', 'degF'),
  precipitation1h: quantity('In the last hour', 'mm', 'in'),
  precipitation3h: quantity('In the last 3 hours', 'mm', 'in'),
  precipitation6h: quantity('In the last 6 hours', 'mm', 'in'),
  heatIndex: quantity('Heat index', 'degC', 'degF'),
  windChill: quantity('Wind chill', 'degC', 'degF'),
};
const presentWeather = listOf(
  record<PresentWeatherData>({
    intensity: { type: ['string', 'null'], enum: ['light', 'heavy', null] },
    modifier: textOrNull('Modifier, such as `freezing`.'),
    phenomenon: text('Phenomenon.', 'rain'),
    raw: text('METAR code.', '-RA'),
    inVicinity: flag('Near the station, not at it.'),
  }),
);
const clouds = listOf(
  record<CloudData>({
    amount: oneOf(['SKC', 'CLR', 'FEW', 'SCT', 'BKN', 'OVC', 'VV'], 'Sky cover.'),
    base: quantity('Height above ground, or null if clear', 'm', 'ft'),
  }),
);
const units = record<ObservationUnits>(
  {
    temperature: unit('degC', 'degF'),
    windSpeed: unit('km/h', 'mph'),
    windDirection: unit('deg'),
    pressure: unit('Pa', 'inHg'),
    visibility: unit('m', 'mi'),
    precipitation: unit('mm', 'in'),
    relativeHumidity: unit('%'),
    cloudBase: unit('m', 'ft'),
    elevation: unit('m', 'ft'),
  },
  'The unit of each quantity.',
);
const letter: JsonSchema = { type: ['string', 'null'] };
const eachOf = <K extends string>(names: readonly K[], schema: JsonSchema): Record<K, JsonSchema> =>
  Object.fromEntries(names.map((name) => [name, schema])) as Record<K, JsonSchema>;

const pastFields: SchemasOf<PastObservationData> = {
  observedAt: instantOf('Time of the observation'),
  receivedAt: orNull(instantOf('Time at which the feeder stored it')),
  textDescription: textOrNull('In words.', 'Clear'),
  rawMessage: textOrNull('The METAR.'),
  ...measured,
  presentWeather,
  clouds,
  quality: record<ObservationData['quality']>(
    eachOf(Object.keys(measured) as (keyof MeasuredData)[], letter),
    'MADIS quality letter of each value: V verified, C coarse pass, S screened, X and B rejected, Q questioned, Z no check.',
  ),
};
const observation = record<ObservationData>({ station, timeZone: orNull(timeZone), ...pastFields, units });

export const observationHistory = record<ObservationHistoryData>({
  station,
  timeZone: orNull(timeZone),
  start: instantOf('Start of the range, inclusive'),
  end: instantOf('End of the range, exclusive'),
  observations: listOf(record<PastObservationData>(pastFields), 'Earliest first.'),
  units,
});

export const observations: JsonSchema = {
  description: 'The newest observation, or the newest of each station if several are requested.',
  anyOf: [
    observation,
    record<ObservationsData>({
      observations: listOf(observation, 'In the order of the request.'),
      missing: listOf(text('A station without an observation.', 'KXYZ')),
    }),
  ],
};

type Source = CurrentConditionsData['source'];
const source = orNull(
  record<NonNullable<Source[keyof Source]>>({
    station: text('Which station.', 'KNYC'),
    observedAt: instantOf('Time of the observation'),
  }),
);
export const currentConditions = record<CurrentConditionsData>({
  station,
  observedAt: instantOf('Time of the newest observation that contributed a value'),
  timeZone: orNull(timeZone),
  textDescription: textOrNull('In words.', 'Clear'),
  ...measured,
  presentWeather,
  clouds,
  feelsLike: quantity('Apparent temperature', 'degC', 'degF'),
  feelsLikeMethod: {
    description: 'Formula of the apparent temperature.',
    type: ['string', 'null'],
    enum: ['wind_chill', 'heat_index', 'temperature', null],
  },
  source: record<Source>(
    eachOf(
      [
        'temperature',
        'dewpoint',
        'relativeHumidity',
        'wind',
        'altimeter',
        'seaLevelPressure',
        'visibility',
        'sky',
        'temperatureMax24h',
        'temperatureMin24h',
        'precipitation1h',
        'precipitation3h',
        'precipitation6h',
      ],
      source,
    ),
    'Source observation of each value.',
  ),
  units,
});

const place = (newest: string): JsonSchema =>
  record<PlaceData>({
    id: text('Identifier.', 'KNYC'),
    name: textOrNull('Name.', 'New York City, Central Park'),
    latitude: { ...degreesNorth, type: 'number' },
    longitude: { ...degreesEast, type: 'number' },
    elevation: quantity('Above sea level', 'm', 'ft'),
    state: textOrNull('State or territory, in two letters.', 'NY'),
    timeZone: orNull(timeZone),
    distance: quantity('Great-circle distance from `near`', 'km', 'mi'),
    bearing: quantity('From `near`, clockwise from north', 'deg'),
    newestAt: orNull(instantOf(newest)),
    newestAge: { description: 'Age in minutes.', type: ['integer', 'null'], minimum: 0 },
  });
const total = count('Number of matches. The list has the first `limit` of them.');
const placeUnits = record<PlaceUnits>(
  { distance: unit('km', 'mi'), bearing: unit('deg'), elevation: unit('m', 'ft'), age: unit('min') },
  'The unit of each quantity.',
);
const order = 'Nearest first with `near`, else by identifier.';

export const stations = record<StationsData>({
  total,
  stations: listOf(place('Time of the newest observation'), order),
  units: placeUnits,
});
export const locations = record<LocationsData>({
  total,
  locations: listOf(place('Generation time of the newest forecast'), order),
  units: placeUnits,
});
export const offices = record<OfficesData>({
  total,
  offices: listOf(place('Issue time of the newest discussion'), order),
  units: placeUnits,
});
