import { isRecord } from '../../../core/lib/json-document.ts';
import { quoted } from '../../../core/lib/text.ts';
import { isInUnitedStates, timeZoneAt } from '../../places/position.ts';
import { quantity } from './quantities.ts';
import {
  BrokenDocument,
  instantOf,
  type Json,
  type Loadable,
  type Note,
  oneOf,
  orNoted,
  required,
  type Row,
  textOf,
} from './rows.ts';

/** The column for each quantity that api.weather.gov reports. */
const columns: Record<string, string> = {
  temperature: 'temperature_c',
  dewpoint: 'dewpoint_c',
  relativeHumidity: 'relative_humidity_pct',
  windDirection: 'wind_direction_deg',
  windSpeed: 'wind_speed_kmh',
  windGust: 'wind_gust_kmh',
  barometricPressure: 'altimeter_pa',
  seaLevelPressure: 'sea_level_pressure_pa',
  visibility: 'visibility_m',
  maxTemperatureLast24Hours: 'temperature_max_24h_c',
  minTemperatureLast24Hours: 'temperature_min_24h_c',
  precipitationLastHour: 'precipitation_1h_mm',
  precipitationLast3Hours: 'precipitation_3h_mm',
  precipitationLast6Hours: 'precipitation_6h_mm',
  heatIndex: 'heat_index_c',
  windChill: 'wind_chill_c',
};

const cloudAmounts = ['SKC', 'CLR', 'FEW', 'SCT', 'BKN', 'OVC', 'VV'];
const intensities = ['light', 'heavy'];

/**
 * Reads an observation from api.weather.gov. An invalid field does not affect the others, and is reported
 * through `note`.
 */
export function observationOf(feature: Json, note: Note, place?: string): Loadable {
  const properties = isRecord(feature['properties']) ? feature['properties'] : {};
  const station_id = required(properties['station'], 'properties.station').replace(/^.*\//, '').toUpperCase();
  const observed_at = instantOf(properties['timestamp'], 'properties.timestamp', note);
  const key = { station_id, observed_at };
  const observation: Row = {
    ...key,
    received_at: observed_at,
    text_description: textOf(properties['textDescription']),
    raw_message: textOf(properties['rawMessage']),
  };
  const qc: Record<string, string> = {};
  for (const [name, column] of Object.entries(columns)) {
    observation[column] = quantity(properties[name], column, `properties.${name}`, note);
    const letter = isRecord(properties[name]) ? textOf(properties[name]['qualityControl']) : null;
    // The quality letter is `V` or, in expanded JSON-LD, `qc:V`.
    if (letter !== null) qc[column] = letter.trim().replace(/^\w+:/, '').toUpperCase();
  }
  return {
    family: 'observation',
    ...(place === undefined ? {} : { place }),
    station: stationOf(station_id, feature, note),
    observation: { ...observation, qc },
    weather: weatherOf(properties['presentWeather'], note).map((row, index) => ({
      ...key,
      position: index + 1,
      ...row,
    })),
    clouds: cloudsOf(properties['cloudLayers'], note).map((row, index) => ({
      ...key,
      position: index + 1,
      ...row,
    })),
  };
}

/** Returns the station of an observation, or null if its position is missing or invalid. */
function stationOf(station_id: string, feature: Json, note: Note): Row | null {
  const properties = isRecord(feature['properties']) ? feature['properties'] : {};
  const coordinates = orNoted(note, () => coordinatesOf(feature['geometry'], note));
  if (coordinates === null) return null;
  const [longitude_deg, latitude_deg] = coordinates;
  return {
    station_id,
    name: textOf(properties['stationName']) ?? station_id,
    latitude_deg,
    longitude_deg,
    elevation_m: quantity(properties['elevation'], 'elevation_m', 'properties.elevation', note),
    time_zone: timeZoneAt(latitude_deg, longitude_deg),
  };
}

/**
 * Returns the items of a list, with their position in the document for messages. Items that are not objects
 * are skipped and reported through `note`.
 */
function partsOf(list: unknown, name: string, note: Note): { item: Json; what: string }[] {
  return (Array.isArray(list) ? list : []).flatMap((item: unknown, index) => {
    const what = `${name}[${index}]`;
    if (isRecord(item)) return [{ item, what }];
    note(`${what} is ${quoted(JSON.stringify(item))}; left out`);
    return [];
  });
}

function weatherOf(list: unknown, note: Note): Row[] {
  return partsOf(list, 'properties.presentWeather', note).flatMap(({ item, what }) => {
    const phenomenon = orNoted(note, () => required(item['weather'], `${what}.weather`));
    if (phenomenon === null) return [];
    const raw = textOf(item['rawString']) ?? '';
    const intensity =
      textOf(item['intensity']) === null
        ? null
        : orNoted(note, () =>
            oneOf(textOf(item['intensity'])?.trim().toLowerCase(), intensities, `${what}.intensity`),
          );
    const in_vicinity = item['inVicinity'] === true || raw.startsWith('VC');
    return [{ intensity, modifier: textOf(item['modifier']), phenomenon, raw, in_vicinity }];
  });
}

function cloudsOf(list: unknown, note: Note): Row[] {
  return partsOf(list, 'properties.cloudLayers', note).flatMap(({ item, what }) => {
    const amount = orNoted(note, () =>
      oneOf(textOf(item['amount'])?.trim().toUpperCase(), cloudAmounts, `${what}.amount`),
    );
    if (amount === null) return [];
    // For a clear sky, automatic stations report how far their ceilometer can measure, which is not a cloud
    // base.
    const isClear = /^(CLR|SKC)$/.test(amount);
    return [{ amount, base_m: isClear ? null : quantity(item['base'], 'base_m', `${what}.base`, note) }];
  });
}

/**
 * Reads the coordinates of a point. Sources that do not know the position send 0, 0. If a point is in the
 * United States only after swapping latitude and longitude, they are swapped and this is reported through
 * `note`.
 */
export function coordinatesOf(geometry: unknown, note: Note): [number, number] {
  const coordinates: unknown[] =
    isRecord(geometry) && Array.isArray(geometry['coordinates']) ? geometry['coordinates'] : [];
  const [longitude, latitude] = coordinates;
  const isNowhere = longitude === 0 && latitude === 0;
  if (!isWithin(longitude, 180) || !isWithin(latitude, 180) || isNowhere)
    throw new BrokenDocument('geometry.coordinates are not a longitude and a latitude');
  const swapped = { latitude: longitude, longitude: latitude };
  if (isInUnitedStates(swapped) && !isInUnitedStates({ latitude, longitude })) {
    note(`geometry.coordinates are ${longitude}, ${latitude}: latitude and longitude are swapped`);
    return [latitude, longitude];
  }
  if (!isWithin(latitude, 90))
    throw new BrokenDocument('geometry.coordinates are not a longitude and a latitude');
  return [longitude, latitude];
}

function isWithin(value: unknown, bound: number): value is number {
  return typeof value === 'number' && Math.abs(value) <= bound;
}
