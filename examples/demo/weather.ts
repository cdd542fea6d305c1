import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { feedFile } from '../../src/core/weather/feed/sources/files.ts';
import { createTables } from '../../src/core/weather/feed/tables/create-tables.ts';
import { openDirectory } from '../../src/core/weather/feed/tables/open-directory.ts';

const samples = path.join(import.meta.dirname, '../../test/fixtures/weather');
const shown = [
  'observations/KNYC_latest_20260120.json',
  'alerts/active_20251215_mixed13.json',
  'forecast_hourly/OKX_33_35_hourly_20260120.json',
  'forecast_narrative/OKX_33_35_forecast_20260120.json',
  'weather_stories/MKX_20260912.json',
];

/** Reads of three families, under the URL of the daemon. */
export const weatherReads = [
  'observations?station=KNYC&format=text&units=us',
  'forecasts/hourly?location=OKX/33,35&hours=6&format=text',
  'weather-stories?office=MKX&format=xml',
];

/** Fills an embedded weather database in a directory, as a feeder would. */
export async function feedWeather(directory: string): Promise<void> {
  const target = await openDirectory(directory);
  try {
    await createTables(target);
    for (const file of [...shown, ...(await outlooks())]) await feedFile(target, path.join(samples, file));
  } finally {
    await target.close();
  }
}

async function outlooks(): Promise<string[]> {
  const names = await readdir(path.join(samples, 'outlooks'));
  return names.filter((name) => name.startsWith('day1otlk')).map((name) => `outlooks/${name}`);
}
