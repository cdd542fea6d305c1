import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { createTables } from '../../src/weather/feed/tables/create-tables.ts';
import { startWeather } from '../weather/api/weather-harness.ts';
import { sharedPglite } from '../weather/shared-pglite.ts';
import { clockAt } from '../weather/suite.ts';
import type { Lifetime, PageSet } from './page-sets.ts';
import { badDay, hostileWorld, weatherWorld, worldNow } from './weather-world.ts';

const hourMs = 60 * 60_000;

/** The reader alone with the data of an invented afternoon. Returns its URL, with a slash at its end. */
export async function startWeatherPages(
  t: Lifetime,
  { now = worldNow, world = weatherWorld }: { now?: string; world?: string } = {},
): Promise<string> {
  const shared = await sharedPglite();
  t.teardown(() => shared.close());
  const target = await shared.openTarget();
  await createTables(target);
  await target.run(world);
  const clock = clockAt(now);
  const reader = await shared.openReader(clock);
  return `${await startWeather(t as Test, { reader, clock, staleAfterMs: 6 * hourMs })}/`;
}

/** The map of the weather and the pages of stations. */
export const weatherPages: PageSet = {
  name: 'weather',
  start: (t) => startWeatherPages(t),
  pages: [
    { name: 'weather-map', path: 'weather/', inDocs: true },
    { name: 'weather-state', path: 'weather/?state=NY&q=new&units=si' },
    { name: 'weather-outlook', path: 'weather/?day=1' },
    {
      name: 'weather-station',
      path: 'weather/stations/KNYC',
      inDocs: true,
    },
    { name: 'weather-silent-station', path: 'weather/stations/KOLD' },
    { name: 'weather-unknown-station', path: 'weather/stations/KZZZ', status: 404 },
    { name: 'weather-map-opened', path: 'weather/?units=us', isState: true, prepare: openAll },
    { name: 'weather-state-opened', path: 'weather/?state=NY', isState: true, prepare: openAll },
    { name: 'weather-station-opened', path: 'weather/stations/KNYC', isState: true, prepare: openAll },
  ],
};

/** The same pages with text that looks like markup. They are checked, but have no screenshots. */
export const hostileWeatherPages: PageSet = {
  name: 'hostile weather',
  start: (t) => startWeatherPages(t, { world: hostileWorld }),
  pages: [
    { name: 'weather-map-hostile', path: 'weather/', isState: true, prepare: openAll },
    { name: 'weather-state-hostile', path: 'weather/?state=NY&q=new', isState: true, prepare: openAll },
    { name: 'weather-station-hostile', path: 'weather/stations/KNYC', isState: true, prepare: openAll },
  ],
};

/** A day on which much of the data is missing or hard to place. */
export const badDayPages: PageSet = {
  name: 'weather on a bad day',
  start: (t) => startWeatherPages(t, { world: weatherWorld + badDay }),
  pages: [
    { name: 'weather-high-risk-station', path: 'weather/stations/KMEI', inDocs: true, prepare: openFirst },
    { name: 'weather-high-risk-map', path: 'weather/?day=1', inDocs: true },
    { name: 'weather-antimeridian-station', path: 'weather/stations/PASY', inDocs: true, prepare: openFirst },
    { name: 'weather-antimeridian-state', path: 'weather/?state=AK', inDocs: true },
  ],
};

async function openAll(page: Page): Promise<void> {
  await page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))");
}

async function openFirst(page: Page): Promise<void> {
  await page.evaluate("document.querySelector('details').open = true");
}
