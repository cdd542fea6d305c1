import type { Config } from '../../../core/config/config.ts';
import { requireDatabasePackage } from '../../../core/config/required-packages.ts';
import type { DatabaseConfig } from '../../../core/config/weather/databases.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import type { Secrets } from '../../../core/lib/secrets.ts';
import { suggestion } from '../../../core/lib/text.ts';
import { createRequestTable, createTables } from '../../../weather/feed/tables/create-tables.ts';
import { failure } from '../../../weather/feed/tables/load-document.ts';
import type { WritableDatabase } from '../../../weather/feed/tables/upsert.ts';

/**
 * Opens the database to load weather data into. If requested, creates its tables; otherwise they have to
 * exist. Throws `usage`, `package_missing`, `secrets_invalid`, `database_unavailable` or `schema_mismatch`.
 */
export async function openFeedDatabase(
  config: Config,
  secrets: Secrets,
  { create }: { create: boolean },
): Promise<WritableDatabase> {
  const database = databaseOf(config);
  const target = await openDatabase(database, config, secrets, create);
  try {
    if (create) {
      await createTables(target, database.schema);
      await createRequestTable(target);
    } else await requireTables(target, database);
    return target;
  } catch (error) {
    await target.close();
    throw failure(error);
  }
}

async function openDatabase(
  database: DatabaseConfig,
  { weather }: Config,
  secrets: Secrets,
  create: boolean,
): Promise<WritableDatabase> {
  if (database.driver === 'postgres') {
    const { openServer } = await import('../../../weather/feed/tables/open-server.ts');
    return openServer(
      secrets.require(weather.feed.urlEnv ?? database.urlEnv, 'weather.feed'),
      database.schema,
    );
  }
  requireDatabasePackage();
  try {
    const { openDirectory } = await import('../../../weather/feed/tables/open-directory.ts');
    return await openDirectory(database.directory, database.schema, { create });
  } catch (error) {
    throw failure(error);
  }
}

function databaseOf({ databases, weather }: Config): DatabaseConfig {
  const { database: name } = weather.feed;
  const [first] = databases;
  if (first === undefined)
    throw new WaybillError('usage', 'the configuration has no weather database', {
      hint: 'name one under "databases"; docs/weather-feeder.md shows how',
    });
  if (name === null) return first;
  const found = databases.find((database) => database.name === name);
  if (found !== undefined) return found;
  const known = databases.map((database) => database.name);
  throw new WaybillError('usage', `weather.feed.database: there is no database named "${name}"`, {
    hint: suggestion(name, known),
  });
}

async function requireTables(target: WritableDatabase, { name, schema }: DatabaseConfig): Promise<void> {
  const [found] = await target.query("select to_regclass('stations') is not null as there", []);
  if (found?.['there'] === true) return;
  throw new WaybillError('schema_mismatch', `the database "${name}" has no weather tables in "${schema}"`, {
    hint: 'add --create-tables to create them',
  });
}
