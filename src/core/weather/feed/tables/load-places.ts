import { placeKeys } from '../documents/places.ts';
import type { PlaceTable } from '../documents/rows.ts';
import type { Statements } from './target.ts';
import { upsert } from './upsert.ts';

/** Places of one statement: an outline of a zone can have hundreds of kilobytes. */
const batches = { stations: 500, locations: 500, offices: 500, zones: 20 };

/** A place that is there takes what is said of it now; columns that nothing is said of stay. */
export async function loadPlaces(statements: Statements, { table, rows }: PlaceTable): Promise<number> {
  const to = { table, key: [placeKeys[table]], onConflict: 'replace' } as const;
  const batch = batches[table];
  let changed = 0;
  for (let from = 0; from < rows.length; from += batch)
    changed += await upsert(statements, to, rows.slice(from, from + batch));
  return changed;
}
