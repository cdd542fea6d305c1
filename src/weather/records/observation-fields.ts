import {
  count,
  type DataOf,
  degreesEast,
  degreesNorth,
  field,
  type FieldsOf,
  flag,
  instantOf,
  listOf,
  oneOf,
  orNull,
  quantity,
  record,
  text,
  textOrNull,
  timeZone,
  unit,
} from '../fields.ts';

/* The fields of observations, current conditions and places. */

export type FeelsLikeMethod = 'wind_chill' | 'heat_index' | 'temperature';

const station = record({
  id: text('Identifier.', 'KNYC'),
  name: text('Name.', 'New York City, Central Park'),
  latitude: degreesNorth,
  longitude: degreesEast,
  elevation: quantity('Above sea level', 'm', 'ft'),
});
const measured = {
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
  record({
    intensity: field<'light' | 'heavy' | null>({
      type: ['string', 'null'],
      enum: ['light', 'heavy', null],
    }),
    modifier: textOrNull('Modifier, such as `freezing`.'),
    phenomenon: text('Phenomenon.', 'rain'),
    raw: text('METAR code.', '-RA'),
    inVicinity: flag('Near the station, not at it.'),
  }),
);
const clouds = listOf(
  record({
    amount: oneOf(['SKC', 'CLR', 'FEW', 'SCT', 'BKN', 'OVC', 'VV'], 'Sky cover.'),
    base: quantity('Height above ground, or null if clear', 'm', 'ft'),
  }),
);
const units = record(
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
const letter = field<string | null>({ type: ['string', 'null'] });
const eachOf = <const K extends string, F>(names: readonly K[], schema: F): Record<K, F> =>
  Object.fromEntries(names.map((name) => [name, schema])) as Record<K, F>;

const pastFields = {
  observedAt: instantOf('Time of the observation'),
  receivedAt: orNull(instantOf('Time at which the feeder stored it')),
  textDescription: textOrNull('In words.', 'Clear'),
  rawMessage: textOrNull('The METAR.'),
  ...measured,
  presentWeather,
  clouds,
  quality: record(
    eachOf(Object.keys(measured) as (keyof typeof measured)[], letter),
    'MADIS quality letter of each value: V verified, C coarse pass, S screened, X and B rejected, Q questioned, Z no check.',
  ),
};
const observation = record({ station, timeZone: orNull(timeZone), ...pastFields, units });

export const observationHistoryRecord = record({
  station,
  timeZone: orNull(timeZone),
  start: instantOf('Start of the range, inclusive'),
  end: instantOf('End of the range, exclusive'),
  observations: listOf(record(pastFields), 'Earliest first.'),
  units,
});

const severalObservations = record({
  observations: listOf(observation, 'In the order of the request.'),
  missing: listOf(text('A station without an observation.', 'KXYZ')),
});
export const observationsRecord = field<ObservationData | ObservationsData>({
  description: 'The newest observation, or the newest of each station if several are requested.',
  anyOf: [observation, severalObservations],
});

const source = orNull(
  record({
    station: text('Which station.', 'KNYC'),
    observedAt: instantOf('Time of the observation'),
  }),
);
export const currentConditionsRecord = record({
  station,
  observedAt: instantOf('Time of the newest observation that contributed a value'),
  timeZone: orNull(timeZone),
  textDescription: textOrNull('In words.', 'Clear'),
  ...measured,
  presentWeather,
  clouds,
  feelsLike: quantity('Apparent temperature', 'degC', 'degF'),
  feelsLikeMethod: field<FeelsLikeMethod | null>({
    description: 'Formula of the apparent temperature.',
    type: ['string', 'null'],
    enum: ['wind_chill', 'heat_index', 'temperature', null],
  }),
  source: record(
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

const place = (newest: string) =>
  record({
    id: text('Identifier.', 'KNYC'),
    name: textOrNull('Name.', 'New York City, Central Park'),
    latitude: field<number>({ ...degreesNorth, type: 'number' }),
    longitude: field<number>({ ...degreesEast, type: 'number' }),
    elevation: quantity('Above sea level', 'm', 'ft'),
    state: textOrNull('State or territory, in two letters.', 'NY'),
    timeZone: orNull(timeZone),
    distance: quantity('Great-circle distance from `near`', 'km', 'mi'),
    bearing: quantity('From `near`, clockwise from north', 'deg'),
    newestAt: orNull(instantOf(newest)),
    newestAge: field<number | null>({
      description: 'Age in minutes.',
      type: ['integer', 'null'],
      minimum: 0,
    }),
  });
const total = count('Number of matches. The list has the first `limit` of them.');
const placeUnits = record(
  { distance: unit('km', 'mi'), bearing: unit('deg'), elevation: unit('m', 'ft'), age: unit('min') },
  'The unit of each quantity.',
);
const order = 'Nearest first with `near`, else by identifier.';

export const stationsRecord = record({
  total,
  stations: listOf(place('Time of the newest observation'), order),
  units: placeUnits,
});
export const locationsRecord = record({
  total,
  locations: listOf(place('Generation time of the newest forecast'), order),
  units: placeUnits,
});
export const officesRecord = record({
  total,
  offices: listOf(place('Issue time of the newest discussion'), order),
  units: placeUnits,
});

export type StationData = DataOf<typeof station>;
export type MeasuredData = FieldsOf<typeof measured>;
export type PresentWeatherData = DataOf<typeof presentWeather>[number];
export type CloudData = DataOf<typeof clouds>[number];
export type ObservationData = DataOf<typeof observation>;
/** An observation in a list for one station. The station and the units are not repeated for each of them. */
export type PastObservationData = FieldsOf<typeof pastFields>;
/** The latest observation of each of several stations. Also lists the stations that have none. */
export type ObservationsData = DataOf<typeof severalObservations>;
export type ObservationHistoryData = DataOf<typeof observationHistoryRecord>;
export type CurrentConditionsData = DataOf<typeof currentConditionsRecord>;
export type PlaceData = StationsData['stations'][number];
export type StationsData = DataOf<typeof stationsRecord>;
export type LocationsData = DataOf<typeof locationsRecord>;
export type OfficesData = DataOf<typeof officesRecord>;
