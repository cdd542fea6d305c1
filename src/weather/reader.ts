import { familyNames, weatherFamilies, type FamilyName } from './families.ts';
import type { WeatherDatabase } from './database/database.ts';
import type { Reading, WeatherFamily, WeatherSource } from './family.ts';
import { openNewestObservations, type NewestObservations } from './records/newest-observations.ts';
import { openPlaceLists } from './places/place-lists.ts';
import { openZoneOutlines, type ZoneOutlines } from './places/zone-outlines.ts';

type Families = typeof weatherFamilies;

/** What a family is asked for: parsed values of its endpoint's parameters, by default those of absence. */
export type QueryOf<Name extends FamilyName> = Partial<Parameters<Families[Name]['read']>[1]>;

/**
 * The latest weather records, read and never written, with one method for each family. Each answers from one
 * consistent snapshot and throws `database_unavailable` (try again), `schema_mismatch` or `internal_error`;
 * no message holds SQL or a secret.
 */
export type WeatherReader = {
  [Name in FamilyName]: (query: QueryOf<Name>) => ReturnType<Families[Name]['read']>;
} & {
  zoneOutlines: ZoneOutlines;
  newestObservations: NewestObservations;
  /** Asks the database that is read for a sign of life. */
  probe(): Promise<void>;
  /** Closes every database that was opened; throws the first failure after trying all. */
  close(): Promise<void>;
};

export const longestReadMs = 5000;

type ReaderSource = Pick<WeatherSource, 'database' | 'clock'> & Partial<Pick<WeatherSource, 'deadlineMs'>>;

export function createReader(
  { deadlineMs = longestReadMs, ...source }: ReaderSource,
  close: () => Promise<void>,
): WeatherReader {
  const places = openPlaceLists(shareOf(source.database, 'places'), source.clock);
  const reads = familyNames.map((name) => {
    const own = { ...source, deadlineMs, places, database: shareOf(source.database, name) };
    const absent = absentOf(weatherFamilies[name]);
    return [name, (query: object) => weatherFamilies[name].read(own, { ...absent, ...query } as never)];
  });
  return {
    ...(Object.fromEntries(reads) as Pick<WeatherReader, FamilyName>),
    zoneOutlines: openZoneOutlines(shareOf(source.database, 'places')),
    newestObservations: openNewestObservations(shareOf(source.database, 'observations'), source.clock),
    probe: () => source.database.probe(),
    close,
  };
}

/** The record of a family. */
export type RecordOf<Name extends FamilyName> = NonNullable<Awaited<ReturnType<WeatherReader[Name]>>['data']>;

/** Reads a family that is known by its name only, with a query that was parsed by its own parameters. */
export function readFamily(reader: WeatherReader, name: FamilyName, query: object): Promise<Reading<object>> {
  const read: (query: never) => Promise<Reading<object>> = reader[name];
  return read(query as never);
}

/** What each parameter is if it is not given. */
function absentOf({ endpoint }: WeatherFamily): object {
  return Object.fromEntries(Object.entries(endpoint.parameters).map(([name, { absent }]) => [name, absent]));
}

/** The database with the share of its connections that one family has. */
function shareOf(database: WeatherDatabase, family: FamilyName | 'places'): WeatherDatabase {
  return {
    ...database,
    one: (work) => database.one(work, family),
    snapshot: (work) => database.snapshot(work, family),
  };
}
