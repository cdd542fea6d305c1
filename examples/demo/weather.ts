import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { feedDocument } from '../../src/weather/feed/feed-document.ts';
import { createTables } from '../../src/weather/feed/tables/create-tables.ts';
import { openDirectory } from '../../src/weather/feed/tables/open-directory.ts';
import { asOfNow, type Move } from './recent-samples.ts';

const directoryOfSamples = path.join(import.meta.dirname, '../../test/fixtures/weather');
const samples: Readonly<Record<string, Move>> = {
  'observations/KNYC_latest_20260120.json': { from: '2026-01-20T17:51:00Z', by: 'minutes' },
  'alerts/active_20251215_mixed13.json': { from: '2025-12-15T21:51:46Z', by: 'minutes' },
  'forecast_hourly/OKX_33_35_hourly_20260120.json': { from: '2026-01-20T18:13:40Z', by: 'days' },
  'forecast_narrative/OKX_33_35_forecast_20260120.json': { from: '2026-01-20T11:38:23Z', by: 'days' },
  'weather_stories/MKX_20260912.json': { from: '2026-09-12T19:39:04Z', by: 'minutes' },
  'outlooks/day1otlk_cat.nolyr.geojson.json': { from: '2026-05-17T12:00:00Z', by: 'days' },
};

/** Reads of three families, under the URL of the daemon. */
export const weatherReads = [
  'observations?station=KNYC&format=text&units=us',
  'forecasts/hourly?location=OKX/33,35&hours=6&format=text',
  'weather-stories?office=MKX&format=xml',
];

/** Fills an embedded weather database in a directory, as a feeder would, with samples as of now. */
export async function feedWeather(directory: string): Promise<void> {
  const now = new Date();
  const target = await openDirectory(directory);
  try {
    await createTables(target);
    for (const [name, move] of Object.entries(samples)) {
      const place = path.join(directoryOfSamples, name);
      const text = asOfNow(await readFile(place, 'utf8'), move, now);
      const arrived = { place, name: path.basename(name), text, receivedAt: null };
      const { outcome, reason, leftOut } = await feedDocument(target, arrived);
      if (outcome !== 'loaded' || leftOut.length > 0)
        throw new Error(`${place} was not loaded whole: ${[reason, ...leftOut].filter(Boolean).join('; ')}`);
    }
  } finally {
    await target.close();
  }
}
