import { familyNames, weatherFamilies, type FamilyName } from './families.ts';
import type { WeatherDatabase } from './database/database.ts';
import type { Reading, WeatherSource } from './family.ts';

type Families = typeof weatherFamilies;

/** What a family is asked for: the parsed values of its endpoint's parameters. */
export type QueryOf<Name extends FamilyName> = Parameters<Families[Name]['read']>[1];

/**
 * The latest weather records, read and never written, with one method for each family. Each answers from one
 * consistent snapshot and throws `database_unavailable` (try again), `schema_mismatch` or `internal_error`;
 * no message holds SQL or a secret.
 */
export type WeatherReader = {
  [Name in FamilyName]: (query: QueryOf<Name>) => ReturnType<Families[Name]['read']>;
} & {
  /** Asks the database that is read for a sign of life. */
  probe(): Promise<void>;
  /** Closes every database that was opened; throws the first failure after trying all. */
  close(): Promise<void>;
};

export function createReader(source: WeatherSource, close: () => Promise<void>): WeatherReader {
  const reads = familyNames.map((name) => {
    const own = { ...source, database: shareOf(source.database, name) };
    return [name, (query: never) => weatherFamilies[name].read(own, query)];
  });
  return {
    ...(Object.fromEntries(reads) as Omit<WeatherReader, 'close' | 'probe'>),
    probe: () => source.database.probe(),
    close,
  };
}

/** Reads a family that is known by its name only, with a query that was parsed by its own parameters. */
export function readFamily(reader: WeatherReader, name: FamilyName, query: object): Promise<Reading<object>> {
  const read: (query: never) => Promise<Reading<object>> = reader[name];
  return read(query as never);
}

/** The database with the share of its connections that one family has. */
function shareOf(database: WeatherDatabase, family: FamilyName): WeatherDatabase {
  return {
    ...database,
    one: (work) => database.one(work, family),
    snapshot: (work) => database.snapshot(work, family),
  };
}
