import type { Instant } from '../instant.ts';
import type { CloudData, PresentWeatherData } from '../observation-row.ts';
import { fields, type Cell, type Column } from '../table.ts';

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

/** What a row of observations is made of: the record of one observation, or as much of it. */
interface ObservationRow extends Readonly<Record<keyof typeof measured, number | null>> {
  station: { id: string; name: string; latitude: Cell; longitude: Cell; elevation: Cell };
  observedAt: Instant;
  timeZone: string | null;
  textDescription: string | null;
  rawMessage: string | null;
  presentWeather: readonly PresentWeatherData[];
  clouds: readonly CloudData[];
}

/** A row for each observation. The letters of quality are in the other forms only. */
export const observationColumns: readonly Column<ObservationRow>[] = [
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

/** `light freezing rain`. The code, `-FZRA`, would be a formula to a spreadsheet. */
function inWords({ intensity, modifier, phenomenon, inVicinity }: PresentWeatherData): string {
  const words = [intensity, modifier, phenomenon, inVicinity ? 'in vicinity' : null];
  return words.filter((word) => word !== null).join(' ');
}

function layer({ amount, base }: CloudData): string {
  return base === null ? amount : `${amount} ${base}`;
}
