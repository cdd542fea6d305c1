import { type WaybillError, withDetails } from '../../../core/lib/errors.ts';
import { databaseError } from '../../database/database-errors.ts';
import { placeKeys } from '../documents/places.ts';
import { BrokenDocument, type Loadable, type PlaceTable, reasonOf, type Row } from '../documents/rows.ts';
import { lockFeeders } from './create-tables.ts';
import { loadOutlook, loadOutlookDiscussion, runOf, withRun } from './outlooks.ts';
import { loadAlerts, loadStories } from './polls.ts';
import {
  movedForward,
  same,
  type Statements,
  type Transaction,
  type Upsert,
  upsert,
  type WritableDatabase,
} from './upsert.ts';

interface LoadResult {
  /** The number of rows that were inserted or updated. 0 if everything had already been stored. */
  rows: number;
  /** Records that the database rejected, and why. They were left out completely. */
  leftOut: string[];
}

/**
 * Stores the records of a document in one transaction, along with the statements of `alongside`. Existing
 * rows are only replaced by newer ones, so it is safe to load a document again. If the database rejects some
 * of the records, the others are stored without them. Throws `BrokenDocument` if it rejects all of them, and
 * the database's errors: `database_unavailable`, `schema_mismatch` or `internal_error`.
 */
export async function load(
  target: WritableDatabase,
  records: readonly Loadable[],
  alongside: (statements: Statements) => Promise<void> = () => Promise.resolve(),
): Promise<LoadResult> {
  const attempt = (each: (transaction: Transaction, index: number) => Promise<number>): Promise<number> =>
    target.transaction(async (transaction) => {
      await lockFeeders(transaction);
      let rows = 0;
      for (const index of records.keys()) rows += await each(transaction, index);
      await alongside(transaction);
      return rows;
    });
  const loadAt = (statements: Statements, index: number): Promise<number> =>
    loadRecord(statements, records[index] as Loadable);
  try {
    return { rows: await attempt(loadAt), leftOut: [] };
  } catch (error) {
    if (!isRefused(error)) throw failure(error);
    if (records.length <= 1) throw refused(error);
  }
  const leftOut: string[] = [];
  const rows = await attempt(async (transaction, index) => {
    try {
      return await transaction.savepoint((statements) => loadAt(statements, index));
    } catch (error) {
      if (!isRefused(error)) throw error;
      leftOut.push(`${placeOf(records[index], index)}: ${reasonOf(refused(error))}`);
      return 0;
    }
  }).catch((error: unknown) => {
    throw failure(error);
  });
  if (leftOut.length === records.length) throw new BrokenDocument(leftOut[0]);
  return { rows, leftOut };
}

/**
 * Runs a single query outside of a transaction. Throws the same database errors as `load`, so that feeders
 * notice an unreachable database here, too.
 */
export async function lookUp(
  target: Pick<WritableDatabase, 'query'>,
  text: string,
  values: unknown[],
): Promise<Record<string, unknown>[]> {
  try {
    return await target.query(text, values);
  } catch (error) {
    throw failure(error);
  }
}

/** Returns where in the document a record is: `features[2]`. */
function placeOf(record: Loadable | undefined, index: number): string {
  return (record?.family === 'observation' ? record.place : undefined) ?? `record ${index}`;
}

/**
 * Error classes 21, 22 and 23. They mean that the values do not fit the table or conflict with other rows.
 */
function isRefused(error: unknown): error is BrokenDocument | (Error & { code: string }) {
  if (error instanceof BrokenDocument) return true;
  return error instanceof Error && 'code' in error && /^2[123]/.test(String(error.code));
}

function refused(error: BrokenDocument | (Error & { code: string })): BrokenDocument {
  if (error instanceof BrokenDocument) return error;
  return new BrokenDocument(`the database refuses it: ${error.message.slice(0, 300)} (${error.code})`);
}

/** Converts a database error and adds a hint for the administrator of the feeder. */
export function failure(thrown: unknown): WaybillError {
  const error = databaseError(thrown, 'weather.feed');
  const code = thrown instanceof Error && 'code' in thrown ? thrown.code : null;
  const hint =
    code === '42501'
      ? 'let the role of weather.feed.url_env write to the weather tables, and own their schema for --create-tables'
      : code === '3F000' || code === '42P01'
        ? 'add --create-tables to create the tables'
        : error.hint;
  return withDetails(error, { hint, cause: error.cause });
}

type LoadableObservation = Loadable & { family: 'observation' };

/** Writes a record in the current transaction. Returns the number of rows that were inserted or updated. */
async function loadRecord(statements: Statements, record: Loadable): Promise<number> {
  const keep = (table: string, key: readonly string[], rows: readonly Row[]): Promise<number> =>
    upsert(statements, { table, key, onConflict: 'keep' }, rows);
  switch (record.family) {
    case 'observation':
      return loadObservation(statements, record);
    case 'alerts':
      return loadAlerts(statements, record);
    case 'stories':
      return loadStories(statements, record);
    case 'forecast': {
      await upsert(statements, { table: 'locations', key: ['location_id'], onConflict: 'replace' }, [
        record.location,
      ]);
      const run_id = await runOf(statements, 'forecast_runs', record.run, [
        'kind',
        'location_id',
        'generated_at',
      ]);
      return keep('forecast_periods', ['run_id', 'number'], withRun(run_id, record.periods));
    }
    case 'forecast_discussion': {
      const added = await keep('forecast_discussions', ['product_id'], [record.discussion]);
      const key = ['product_id', 'position'];
      return added + (await keep('forecast_discussion_sections', key, record.sections));
    }
    case 'outlook':
      return loadOutlook(statements, record);
    case 'outlook_discussion':
      return loadOutlookDiscussion(statements, record);
    case 'places':
      return loadPlaces(statements, record);
  }
}

const keyOfObservation = ['station_id', 'observed_at'];

/** If a station corrects a report later, the correction replaces it. */
async function loadObservation(
  statements: Statements,
  { station, observation, weather, clouds }: LoadableObservation,
): Promise<number> {
  if (station === null) await requireStation(statements, observation['station_id']);
  else await loadStation(statements, station);
  const to: Upsert = { table: 'observations', key: keyOfObservation, onConflict: 'replace' };
  const changed = await upsert(statements, to, [observation]);
  const parts =
    (await replaceParts(statements, 'observation_weather', observation, weather)) +
    (await replaceParts(statements, 'observation_clouds', observation, clouds));
  if (changed === 0 && parts > 0)
    await statements.query(
      `update observations as present set received_at = ${movedForward('$3::timestamptz')} where ${same(keyOfObservation)}`,
      [...keyOf(observation), observation['received_at']],
    );
  return changed + parts;
}

async function requireStation(statements: Statements, id: unknown): Promise<void> {
  const found = await statements.query('select 1 as one from stations where station_id = $1', [id]);
  if (found.length === 0)
    throw new BrokenDocument(
      `geometry.coordinates are missing, and the station ${JSON.stringify(id)} is not known`,
    );
}

/**
 * Stores the station of an observation if it is new. Otherwise its position is left alone, because positions
 * in observations are rounded, while the stored one may be from a list of stations. It is only replaced if
 * the new one is far away.
 */
async function loadStation(statements: Statements, station: Row): Promise<void> {
  const columns = Object.keys(station);
  const elsewhere = `(abs(present.latitude_deg - excluded.latitude_deg) > ${roundedDeg}
    or abs(present.longitude_deg - excluded.longitude_deg) > ${roundedDeg})`;
  const placed = ['latitude_deg', 'longitude_deg', 'time_zone'].map(
    (column) => `${column} = case when ${elsewhere} then excluded.${column} else present.${column} end`,
  );
  const isMeasured = 'present.elevation_m is null and excluded.elevation_m is not null';
  const isBetterNamed = 'present.name = present.station_id and excluded.name <> excluded.station_id';
  await statements.query(
    `insert into stations as present (${columns.join(', ')})
     select ${columns.join(', ')} from jsonb_populate_recordset(null::stations, $1::text::jsonb)
     on conflict (station_id) do update set ${placed.join(', ')},
       elevation_m = case when ${elsewhere} or (${isMeasured}) then excluded.elevation_m else present.elevation_m end,
       name = case when ${isBetterNamed} then excluded.name else present.name end
     where ${elsewhere} or (${isMeasured}) or (${isBetterNamed})`,
    [JSON.stringify([station])],
  );
}

/** In degrees. Rounding changes coordinates by less than this, and moving a station changes them by more. */
const roundedDeg = 0.05;

async function replaceParts(
  statements: Statements,
  table: string,
  observation: Row,
  rows: readonly Row[],
): Promise<number> {
  const removed = await statements.query(
    `delete from ${table} where ${same(keyOfObservation)} and position > $3 returning 1 as one`,
    [...keyOf(observation), rows.length],
  );
  const to: Upsert = { table, key: [...keyOfObservation, 'position'], onConflict: 'replace' };
  return removed.length + (await upsert(statements, to, rows));
}

function keyOf(observation: Row): unknown[] {
  return keyOfObservation.map((column) => observation[column]);
}

/** The number of places to write per statement. Outlines of zones can take up hundreds of kilobytes. */
const batches = { stations: 500, locations: 500, offices: 500, zones: 20, fire_zones: 20 };

/**
 * Stores places. If a place already exists, columns that the document does not have are left unchanged.
 * Documents of offices have no position, so an office must already exist. Throws `BrokenDocument` if it does
 * not.
 */
async function loadPlaces(statements: Statements, { table, rows }: PlaceTable): Promise<number> {
  if (table === 'offices' && rows.some((row) => !('latitude_deg' in row)))
    return nameOffices(statements, rows);
  if (table === 'fire_zones' && !(await hasFireZones(statements)))
    throw new BrokenDocument('the table fire_zones is missing: --create-tables adds it');
  const to = { table, key: [placeKeys[table]], onConflict: 'replace' } as const;
  const batch = batches[table];
  let changed = 0;
  for (let from = 0; from < rows.length; from += batch)
    changed += await upsert(statements, to, rows.slice(from, from + batch));
  return changed;
}

/** A database from an earlier version may not have this table. Everything else can still be stored. */
async function hasFireZones(statements: Statements): Promise<boolean> {
  const [found] = await statements.query("select to_regclass('fire_zones') is not null as present", []);
  return found?.['present'] === true;
}

async function nameOffices(statements: Statements, rows: readonly Row[]): Promise<number> {
  const said = 'jsonb_populate_recordset(null::offices, $1::text::jsonb) as said';
  const values = [JSON.stringify(rows)];
  const unknown = await statements.query(
    `select office from ${said} where not exists (select from offices where offices.office = said.office)`,
    values,
  );
  if (unknown.length > 0)
    throw new BrokenDocument(
      `where ${unknown.map((row) => String(row['office'])).join(', ')} is, the service does not say: load a table of offices first (docs/weather-feeder.md)`,
    );
  const changed = await statements.query(
    `update offices set name = said.name, state = said.state from ${said}
     where offices.office = said.office and (offices.name, offices.state) is distinct from (said.name, said.state)
     returning 1 as one`,
    values,
  );
  return changed.length;
}
