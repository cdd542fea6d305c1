import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/pglite';
import type { PgliteConfig } from '../../core/config/weather/databases.ts';
import { type Clock, systemClock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { openWatchdog } from './connect.ts';
import type { Queries, WeatherDatabase } from './database.ts';
import { databaseError } from './database-errors.ts';
import { lockDatabase } from './database-lock.ts';
import { openAdmission } from './read-admission.ts';

/**
 * Opens the embedded database in a directory. It must already exist. Reads run one after another, because
 * there is only one session. A read that would have to wait longer than `deadlineMs` fails immediately.
 */
export async function openPglite(
  { name, directory, schema }: PgliteConfig,
  { clock = systemClock, deadlineMs = 5000 }: { clock?: Clock; deadlineMs?: number } = {},
): Promise<WeatherDatabase> {
  await mustHoldDatabase(name, directory);
  const unlock = await lockDatabase(directory);
  try {
    const client = await PGlite.create(directory);
    await client.exec(
      `set default_transaction_read_only = on; set search_path = "${schema}"; set timezone = 'UTC'`,
    );
    return pgliteDatabase(name, drizzle(client), { clock, deadlineMs }, async () => {
      await client.close();
      await unlock();
    });
  } catch (error) {
    await unlock();
    throw databaseError(error, name);
  }
}

/** Uses an embedded database that is already open. */
export function pgliteDatabase(
  name: string,
  queries: Queries,
  { clock, deadlineMs }: { clock: Clock; deadlineMs: number },
  close: () => Promise<void>,
): WeatherDatabase {
  // There is no connection that could be dead, because the database runs in this process.
  const inTime = openWatchdog(deadlineMs, clock, () => undefined);
  const admit = openAdmission({ maxConcurrent: 1, share: 1, waitMs: deadlineMs }, clock);
  const admitted = async <T>(family: string, work: () => Promise<T>): Promise<T> => {
    const release = await admit(family);
    // If a read is abandoned, the session is still busy until it has finished.
    return work().finally(release);
  };
  const guarded = async <T>(family: string, work: () => Promise<T>): Promise<T> => {
    try {
      return await inTime(admitted(family, work));
    } catch (error) {
      throw databaseError(error, name);
    }
  };
  return {
    name,
    one: (work, family = 'any') => guarded(family, () => work(queries)),
    snapshot: (work, family = 'any') =>
      guarded(family, () =>
        queries.transaction(work, { isolationLevel: 'repeatable read', accessMode: 'read only' }),
      ),
    probe: () =>
      guarded('probe', async () => {
        await queries.execute(sql`select 1`);
      }),
    close,
  };
}

/**
 * Throws an error if there is no database in the directory. PGlite would create an empty one, but a reader
 * must not do that.
 */
async function mustHoldDatabase(name: string, directory: string): Promise<void> {
  const file = await stat(join(directory, 'PG_VERSION')).catch(() => null);
  if (file?.isFile() === true) return;
  throw new WaybillError(
    'database_unavailable',
    `the database "${name}" does not exist: ${directory} holds none`,
    {
      hint: 'let the feeder create it (waybill weather feed --create-tables), or correct "directory"',
    },
  );
}
