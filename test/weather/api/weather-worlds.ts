import type { Test } from 'tap';
import type { Clock } from '../../../src/core/lib/clock.ts';
import { loadSecrets } from '../../../src/core/lib/secrets.ts';
import { openDatabase } from '../../../src/weather/database/open-database.ts';
import { feedDocument, type FeedResult } from '../../../src/weather/feed/feed-document.ts';
import { createTables } from '../../../src/weather/feed/tables/create-tables.ts';
import { openServer } from '../../../src/weather/feed/tables/open-server.ts';
import type { WritableDatabase } from '../../../src/weather/feed/tables/upsert.ts';
import { createReader, type WeatherReader } from '../../../src/weather/reader.ts';
import { startPostgres } from '../../services/postgres.ts';
import { primary } from '../primary-database.ts';
import { sharedPglite } from '../shared-pglite.ts';
import { clockAt } from '../suite.ts';
import { startWeather } from './weather-harness.ts';

/** Documents from the feeder to an answer over HTTP, on either database, for tests of unusual data. */

export interface WeatherWorld {
  fed: FeedResult[];
  target: WritableDatabase;
  get: (path: string) => Promise<string>;
  json: (path: string) => Promise<Record<string, unknown>>;
}
type Documents = readonly (readonly [name: string, document: unknown])[];
/** Loads documents into empty tables. The previous world must have ended. */
export type MakeWorld = (t: Test, documents: Documents, now?: string) => Promise<WeatherWorld>;

interface Database {
  openTarget: () => Promise<WritableDatabase>;
  openReader: (clock: Clock) => Promise<WeatherReader>;
}

/** Tests of one database. Each test requests its worlds. */
export type WorldSuite = (t: Test, world: MakeWorld) => Promise<void>;

export const defaultNow = '2026-01-20T18:20:00Z';

/** Runs the suite on an embedded database. */
export async function onPglite(t: Test, suite: WorldSuite): Promise<void> {
  const shared = await sharedPglite();
  t.teardown(() => shared.close());
  await suite(t, makerOf(shared));
}

/** Runs the suite on its own server. All worlds share its connections. */
export async function onPostgres(t: Test, suite: WorldSuite): Promise<void> {
  const server = await startPostgres();
  t.teardown(() => server.remove());
  const secrets = await loadSecrets({ directory: null, env: { WEATHER_URL: server.url() } });
  const target = await openServer(server.url());
  t.teardown(() => target.close());
  const database = await openDatabase(primary, { secrets, deadlineMs: 5000 });
  t.teardown(() => database.close());
  await suite(
    t,
    makerOf({
      openTarget: () => Promise.resolve(target),
      openReader: (clock) => Promise.resolve(createReader({ database, clock }, () => Promise.resolve())),
    }),
  );
}

function makerOf({ openTarget, openReader }: Database): MakeWorld {
  return async (t, documents, now = defaultNow) => {
    const target = await openTarget();
    await emptied(target);
    const fed: FeedResult[] = [];
    for (const [name, document] of documents) {
      const text = typeof document === 'string' ? document : JSON.stringify(document);
      fed.push(await feedDocument(target, { place: name, name, text, receivedAt: null }));
    }
    const clock = clockAt(now);
    const reader = await openReader(clock);
    t.teardown(() => reader.close());
    const base = await startWeather(t, { reader, clock });
    const get = async (path: string): Promise<string> => (await fetch(base + path)).text();
    return { fed, target, get, json: async (path) => JSON.parse(await get(path)) as Record<string, unknown> };
  };
}

/** Empty tables, which are created first. */
async function emptied(target: WritableDatabase): Promise<void> {
  const tables = await target.query(
    "select table_name from information_schema.tables where table_schema = 'weather'",
    [],
  );
  if (tables.length === 0) return createTables(target);
  // Faster than truncating them, which creates new files, and independent of the order of foreign keys.
  const statements = tables.map(({ table_name: name }) => `delete from weather.${String(name)};`).join(' ');
  await target.run(
    `set session_replication_role = replica; ${statements} set session_replication_role = default`,
  );
}
