import { BrokenDocument } from './faults.ts';
import {
  instantOf,
  isMap,
  mapsOf,
  oneOf,
  required,
  textOf,
  type Json,
  type Loadable,
  type Row,
} from './rows.ts';
import { timeZoneAt } from '../../places/time-zone.ts';

/** Column of the contract by the name that api.weather.gov gives the quantity. */
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

/** One feature of api.weather.gov's observations. */
export function observationOf(feature: Json): Loadable {
  const properties = isMap(feature['properties']) ? feature['properties'] : {};
  const station_id = required(properties['station'], 'properties.station').replace(/^.*\//, '').toUpperCase();
  const observed_at = instantOf(properties['timestamp'], 'properties.timestamp');
  const [longitude, latitude] = coordinatesOf(feature['geometry']);
  const key = { station_id, observed_at };
  const observation: Row = {
    ...key,
    received_at: observed_at,
    text_description: textOf(properties['textDescription']),
    raw_message: textOf(properties['rawMessage']),
  };
  const qc: Record<string, string> = {};
  for (const [name, column] of Object.entries(columns)) {
    observation[column] = quantity(properties[name]);
    const letter = isMap(properties[name]) ? textOf(properties[name]['qualityControl']) : null;
    if (letter !== null) qc[column] = letter;
  }
  return {
    family: 'observation',
    station: {
      station_id,
      name: textOf(properties['stationName']) ?? station_id,
      latitude_deg: latitude,
      longitude_deg: longitude,
      elevation_m: quantity(properties['elevation']),
      time_zone: timeZoneAt(latitude, longitude),
    },
    observation: { ...observation, qc },
    weather: mapsOf(properties['presentWeather']).map((item, index) => ({
      ...key,
      position: index + 1,
      intensity:
        textOf(item['intensity']) === null
          ? null
          : oneOf(item['intensity'], intensities, 'the intensity of properties.presentWeather'),
      modifier: textOf(item['modifier']),
      phenomenon: required(item['weather'], 'the weather of properties.presentWeather'),
      raw: textOf(item['rawString']) ?? '',
      in_vicinity: item['inVicinity'] === true || (textOf(item['rawString']) ?? '').startsWith('VC'),
    })),
    clouds: mapsOf(properties['cloudLayers']).map((item, index) => {
      const amount = oneOf(item['amount'], cloudAmounts, 'the amount of properties.cloudLayers');
      // Automatic stations send the height of their ceilometer for a clear sky.
      return {
        ...key,
        position: index + 1,
        amount,
        base_m: /^(CLR|SKC)$/.test(amount) ? null : quantity(item['base']),
      };
    }),
  };
}

export function quantity(value: unknown): number | null {
  return isMap(value) && typeof value['value'] === 'number' ? value['value'] : null;
}

/** Longitude and latitude of a point. */
export function coordinatesOf(geometry: unknown): [number, number] {
  const coordinates: unknown[] =
    isMap(geometry) && Array.isArray(geometry['coordinates']) ? geometry['coordinates'] : [];
  const [longitude, latitude] = coordinates;
  if (!isWithin(longitude, 180) || !isWithin(latitude, 90))
    throw new BrokenDocument('geometry.coordinates are no longitude and latitude');
  return [longitude, latitude];
}

function isWithin(value: unknown, bound: number): value is number {
  return typeof value === 'number' && Math.abs(value) <= bound;
}
