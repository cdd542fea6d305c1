import { drizzle } from 'drizzle-orm/pglite';
import { type Clock, systemClock } from '../../src/core/lib/clock.ts';
import { pgliteDatabase } from '../../src/weather/database/pglite.ts';
import { embeddedTarget, newDatabase } from '../../src/weather/feed/tables/open-directory.ts';
import type { WritableDatabase } from '../../src/weather/feed/tables/upsert.ts';
import { createReader, type WeatherReader } from '../../src/weather/reader.ts';

/**
 * One embedded database in memory, for alternate writes and reads, because starting one takes seconds of
 * processor time. The program opens directories (`openPglite`), which has separate tests.
 */
export async function sharedPglite(): Promise<{
  openTarget: () => Promise<WritableDatabase>;
  openReader: (clock: Clock) => Promise<WeatherReader>;
  close: () => Promise<void>;
}> {
  const client = await newDatabase();
  await client.exec(`set search_path = "weather"; set timezone = 'UTC'`);
  const stay = (): Promise<void> => Promise.resolve();
  return {
    openTarget: async () => {
      await client.exec('set default_transaction_read_only = off');
      return {
        ...embeddedTarget(client),
        close: stay,
      };
    },
    openReader: async (clock) => {
      await client.exec('set default_transaction_read_only = on');
      const database = pgliteDatabase(
        'embedded',
        drizzle(client),
        { clock: systemClock, deadlineMs: 5000 },
        stay,
      );
      return createReader({ database, clock }, stay);
    },
    close: () => client.close(),
  };
}
