import { readFile } from 'node:fs/promises';
import type { Statements, WritableDatabase } from './upsert.ts';

/**
 * Creates the tables of the contract if they do not exist, or adds the columns and tables that are new since
 * an earlier version. Runs in a single transaction. Feeders that do this at the same time wait for each
 * other. Nothing else in this project creates weather tables.
 */
export async function createTables(target: WritableDatabase, schema = 'weather'): Promise<void> {
  await target.transaction(async (statements) => {
    await lockFeeders(statements);
    const [found] = await statements.query(
      'select 1 as one from information_schema.tables where table_schema = $1 and table_name = $2',
      [schema, 'stations'],
    );
    await statements.run(found === undefined ? await contractFor(schema) : added);
  });
}

/** Upgrades tables that were created by an earlier version. */
const added = `
  alter table alert_areas add column if not exists kind text
    check (kind in ('public', 'county', 'fire', 'marine', 'offshore'));
  create table if not exists fire_zones (
    ugc text primary key check (ugc ~ '^[A-Z]{2}Z[0-9]{3}$'), name text, geometry jsonb not null
  );
  do $$ begin
    if exists (select from pg_roles where rolname = 'weather_reader') then grant select on fire_zones to weather_reader; end if;
  end $$;`;

/**
 * Creates a table for the feeder itself. It stores the validators of the document that was last loaded from
 * each URL.
 */
export async function createRequestTable(target: WritableDatabase): Promise<void> {
  await target.transaction(async (statements) => {
    await lockFeeders(statements);
    await statements.run(`create table if not exists feed_requests (
      url text primary key, etag text, last_modified text, loaded_at timestamptz not null, cursor text
    )`);
    const [cursor] = await statements.query(
      "select 1 as one from pg_attribute where attrelid = 'feed_requests'::regclass and attname = 'cursor'",
      [],
    );
    // The column is missing if the table was created by an earlier version.
    if (cursor === undefined) await statements.run('alter table feed_requests add column cursor text');
  });
}

/**
 * Takes a lock until the end of the transaction, so that feeders that use the same database write one after
 * another.
 */
export async function lockFeeders(statements: Statements): Promise<void> {
  await statements.query(
    "select pg_advisory_xact_lock(hashtext('waybill weather feed'), hashtext(current_setting('search_path')))",
    [],
  );
}

async function contractFor(schema: string): Promise<string> {
  const contract = await readFile(new URL('weather-contract.sql', import.meta.url), 'utf8');
  return contract
    .replaceAll(/schema weather\b/g, `schema "${schema}"`)
    .replace(/set search_path = weather;/, `set search_path = "${schema}";`);
}
