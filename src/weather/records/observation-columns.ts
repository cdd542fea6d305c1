import type { Instant } from '../instant.ts';
import type { CloudData, PresentWeatherData } from '../observation-row.ts';
import { fields, weatherTable, type Cell, type Column } from '../table.ts';

const measured = {
  temperature: 'temperature',
  dewpoint: 'temperature',
  relativeHumidity: 'relativeHumidity',
  windDirection: 'windDirection',
  windSpeed: 'windSpeed',
  windGust: 'windSpeed',
  altimeter: 'pressure',
  seaLevelPressure: 'pressure',
  visibility: 'visibility',
  temperatureMax24h: 'temperature',
  temperatureMin24h: 'temperature',
  precipitation1h: 'precipitation',
  precipitation3h: 'precipitation',
  precipitation6h: 'precipitation',
  heatIndex: 'temperature',
  windChill: 'temperature',
} as const;

/** What a row is made of: the record of one observation, or as much of it. */
interface ObservationRow extends PlacelessRow, PlaceOfRow {}

interface PlaceOfRow {
  station: { id: string; name: string; latitude: Cell; longitude: Cell; elevation: Cell };
  timeZone: string | null;
}

interface PlacelessRow extends Readonly<Record<keyof typeof measured, number | null>> {
  observedAt: Instant;
  textDescription: string | null;
  rawMessage: string | null;
  presentWeather: readonly PresentWeatherData[];
  clouds: readonly CloudData[];
}

const columns: readonly Column<ObservationRow>[] = [
  { name: 'station', of: ({ station }) => station.id },
  { name: 'name', of: ({ station }) => station.name },
  { name: 'latitude', of: ({ station }) => station.latitude },
  { name: 'longitude', of: ({ station }) => station.longitude },
  { name: 'elevation', quantity: 'elevation', of: ({ station }) => station.elevation },
  ...fields({ observedAt: null, timeZone: null }),
  ...fields(measured),
  { name: 'presentWeather', of: ({ presentWeather }) => presentWeather.map(inWords).join('; ') },
  { name: 'clouds', quantity: 'cloudBase', of: ({ clouds }) => clouds.map(layer).join('; ') },
  ...fields({ textDescription: null, rawMessage: null }),
];

/** One observation, several, or those of one station. */
type ObservationTableData =
  | ObservationRow
  | { observations: readonly ObservationRow[] }
  | (PlaceOfRow & { observations: readonly PlacelessRow[] });

/** A row for each observation. The letters of quality are in the other forms only. */
export const observationTable = weatherTable(columns, (data: ObservationTableData) => {
  if (!('observations' in data)) return [data];
  if (!('station' in data)) return data.observations;
  const { station, timeZone, observations } = data;
  return observations.map((row): ObservationRow => ({ ...row, station, timeZone }));
});

/** `light freezing rain`. The code, `-FZRA`, would be a formula to a spreadsheet. */
function inWords({ intensity, modifier, phenomenon, inVicinity }: PresentWeatherData): string {
  const words = [intensity, modifier, phenomenon, inVicinity ? 'in vicinity' : null];
  return words
    .filter((word) => word !== null)
    .join(' ')
    .replaceAll('_', ' ');
}

function layer({ amount, base }: CloudData): string {
  return base === null ? amount : `${amount} ${base}`;
}
