import { BrokenDocument } from '../documents/faults.ts';
import { placeKeys } from '../documents/places.ts';
import type { PlaceTable, Row } from '../documents/rows.ts';
import type { Statements } from './target.ts';
import { upsert } from './upsert.ts';

/** Places of one statement: an outline of a zone can have hundreds of kilobytes. */
const batches = { stations: 500, locations: 500, offices: 500, zones: 20, fire_zones: 20 };

/**
 * A place that is there takes what is said of it now; columns that nothing is said of stay. An office comes
 * without its position, which has to be there: throws `BrokenDocument` where it is not.
 */
export async function loadPlaces(statements: Statements, { table, rows }: PlaceTable): Promise<number> {
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

/** Databases of an earlier version have no such table; everything else of theirs is fed. */
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
