import {
  instantOf,
  isMap,
  mapsOf,
  required,
  textOf,
  timeZoneAt,
  type Json,
  type Loadable,
  type Row,
} from './rows.ts';

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

/** One feature of api.weather.gov's observations. */
export function observationOf(feature: Json): Loadable {
  const properties = isMap(feature['properties']) ? feature['properties'] : {};
  const station_id = required(properties['station'], 'the station').replace(/^.*\//, '').toUpperCase();
  const observed_at = instantOf(properties['timestamp'], 'the time of the observation');
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
      time_zone: timeZoneAt(longitude),
    },
    observation: { ...observation, qc },
    weather: mapsOf(properties['presentWeather']).map((item, index) => ({
      ...key,
      position: index + 1,
      intensity: textOf(item['intensity']),
      modifier: textOf(item['modifier']),
      phenomenon: required(item['weather'], 'the phenomenon'),
      raw: textOf(item['rawString']) ?? '',
      in_vicinity: item['inVicinity'] === true || (textOf(item['rawString']) ?? '').startsWith('VC'),
    })),
    clouds: mapsOf(properties['cloudLayers']).map((item, index) => {
      const amount = required(item['amount'], 'the amount of a cloud layer');
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

function coordinatesOf(geometry: unknown): [number, number] {
  const coordinates =
    isMap(geometry) && Array.isArray(geometry['coordinates']) ? geometry['coordinates'] : [];
  const [longitude, latitude] = coordinates.map(Number);
  return [longitude ?? 0, latitude ?? 0];
}
