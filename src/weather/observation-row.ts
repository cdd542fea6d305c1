/** The measured columns of an observation, in stored units. */
export const measuredColumns = [
  'temperatureC',
  'dewpointC',
  'relativeHumidityPct',
  'windDirectionDeg',
  'windSpeedKmh',
  'windGustKmh',
  'altimeterPa',
  'seaLevelPressurePa',
  'visibilityM',
  'temperatureMax24hC',
  'temperatureMin24hC',
  'precipitation1hMm',
  'precipitation3hMm',
  'precipitation6hMm',
  'heatIndexC',
  'windChillC',
] as const;

export type MeasuredColumn = (typeof measuredColumns)[number];
export type MeasuredRow = Record<MeasuredColumn, number | null>;

export interface PresentWeatherData {
  intensity: 'light' | 'heavy' | null;
  modifier: string | null;
  phenomenon: string;
  /** As in the METAR: `-RA`. */
  raw: string;
  inVicinity: boolean;
}

export interface CloudData {
  amount: 'SKC' | 'CLR' | 'FEW' | 'SCT' | 'BKN' | 'OVC' | 'VV';
  base: number | null;
}

export interface StationRow {
  stationId: string;
  name: string;
  /** Null where the table holds what cannot be; likewise `timeZone` and `receivedAt`. */
  latitudeDeg: number | null;
  longitudeDeg: number | null;
  elevationM: number | null;
  timeZone: string | null;
}

export interface ObservationRow extends MeasuredRow {
  observedAt: Date;
  receivedAt: Date | null;
  textDescription: string | null;
  rawMessage: string | null;
  /** Quality letters by the name of the column in the table: `{"temperature_c": "V"}`. */
  qc: Record<string, string>;
  station: StationRow;
  presentWeather: PresentWeatherData[];
  clouds: CloudData[];
}

/** `temperatureMax24hC` → `temperature_max_24h_c`, the name in the table and in `qc`. */
export function columnName(column: MeasuredColumn): string {
  return column.replace(/(?<=[a-z])(?=[0-9])|(?=[A-Z])/g, '_').toLowerCase();
}
