import type { DatabaseConfig } from '../core/config/weather/databases.ts';
import type { Clock } from '../core/lib/clock.ts';
import { asWaybillError, WaybillError, withDetails } from '../core/lib/errors.ts';
import type { Secrets } from '../core/lib/secrets.ts';
import { describeNetworkError } from '../core/lib/system-errors.ts';
import type { WeatherDatabase } from './database/database.ts';
import { openDatabase, openWhenThere } from './database/open-database.ts';
import { type FamilyName, familyNames, weatherFamilies } from './families.ts';
import type { Reading, WeatherFamily, WeatherSource } from './family.ts';
import { openZoneOutlines, type ZoneOutlines } from './places/outlines.ts';
import { openPlaceLists } from './places/place-lists.ts';
import { type NewestObservations, openNewestObservations } from './records/observations.ts';

type Families = typeof weatherFamilies;

/**
 * The parsed query of a family's endpoint. Parameters may be left out, in which case they have their default
 * values.
 */
export type QueryOf<Name extends FamilyName> = Partial<Parameters<Families[Name]['read']>[1]>;

/**
 * Reads weather records from the database, which is never written to. There is a method for each family. All
 * data in a result is from the same snapshot. Methods throw `database_unavailable`, which can be retried,
 * `schema_mismatch` or `internal_error`. The error messages contain neither SQL nor secrets.
 */
export type WeatherReader = {
  [Name in FamilyName]: (query: QueryOf<Name>) => ReturnType<Families[Name]['read']>;
} & {
  zoneOutlines: ZoneOutlines;
  newestObservations: NewestObservations;
  probe(): Promise<void>;
  /** Closes all databases. If that fails for any of them, throws the first error after trying the others. */
  close(): Promise<void>;
};

const maxReadMs = 5000;

type ReaderSource = Pick<WeatherSource, 'database' | 'clock'> & Partial<Pick<WeatherSource, 'deadlineMs'>>;

export function createReader(
  { deadlineMs = maxReadMs, ...source }: ReaderSource,
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

export type RecordOf<Name extends FamilyName> = NonNullable<Awaited<ReturnType<WeatherReader[Name]>>['data']>;

/**
 * Reads the record of a family that is only known at run time. `query` must have been parsed with the
 * family's parameters.
 */
export function readFamily(reader: WeatherReader, name: FamilyName, query: object): Promise<Reading<object>> {
  const read: (query: never) => Promise<Reading<object>> = reader[name];
  return read(query as never);
}

/** Returns the default values of a family's parameters. */
function absentOf({ endpoint }: WeatherFamily): object {
  return Object.fromEntries(Object.entries(endpoint.parameters).map(([name, { absent }]) => [name, absent]));
}

/** Returns a database that only uses a family's share of the connections. */
function shareOf(database: WeatherDatabase, family: FamilyName | 'places'): WeatherDatabase {
  return {
    ...database,
    one: (work) => database.one(work, family),
    snapshot: (work) => database.snapshot(work, family),
  };
}

interface OpenReaderOptions {
  databases: readonly DatabaseConfig[];
  secrets: Secrets;
  clock: Clock;
  /** The time limit for a read, in milliseconds. Default: 5,000. */
  deadlineMs?: number;
  /**
   * Called if a database cannot be reached at startup. The database is then opened as soon as it is
   * reachable. Without this callback, an unreachable database is an error.
   */
  onUnreachable?: (name: string, error: unknown) => void;
}

/** The steps of starting the reader. Errors are reported as `weather: <context>: <reason>`. */
type StartContext = 'load config' | 'open databases' | 'select primary database' | 'build app';

/**
 * Opens all configured databases and checks that they respond. The reader uses the first one. The message of
 * an error begins with the step that failed: `config.databases requires at least one entry`, `open databases:
 * …`, `select primary database: …`.
 */
export async function openWeatherDatabases(options: OpenReaderOptions): Promise<WeatherReader> {
  if (options.databases.length === 0)
    throw new WaybillError('config_invalid', 'config.databases requires at least one entry', {
      hint: 'name a database under "databases"; docs/weather-contract.md says what it must hold',
    });
  const databases = await inContext('open databases', () => openAll(options));
  const primary = await inContext('select primary database', () => selectPrimary(databases));
  const { clock, deadlineMs = maxReadMs } = options;
  return createReader({ database: primary, clock, deadlineMs }, () => closeAll(databases));
}

/** Runs one of the steps. If it throws, adds the step to the error message. */
export async function inContext<T>(context: StartContext, work: () => Promise<T> | T): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    const error = asWaybillError(thrown);
    throw withDetails(error, { message: `${context}: ${error.message}`, cause: error.cause });
  }
}

async function openAll({
  databases,
  secrets,
  clock,
  deadlineMs = maxReadMs,
  onUnreachable,
}: OpenReaderOptions): Promise<WeatherDatabase[]> {
  const opened: WeatherDatabase[] = [];
  try {
    for (const config of databases) {
      const open = (): Promise<WeatherDatabase> => openDatabase(config, { secrets, deadlineMs });
      const database =
        onUnreachable === undefined ? await open() : await openWhenThere(config.name, open, clock);
      opened.push(database);
      await database.probe().catch((error: unknown) => {
        if (onUnreachable === undefined || asWaybillError(error).code !== 'database_unavailable')
          throw withUrl(error, config);
        onUnreachable(config.name, error);
      });
    }
    return opened;
  } catch (error) {
    await closeAll(opened).catch(() => undefined);
    throw error;
  }
}

/** Says why a database is unreachable, and which variable has its URL. */
function withUrl(error: unknown, config: DatabaseConfig): unknown {
  const { code, message, cause } = asWaybillError(error);
  if (code !== 'database_unavailable' || config.driver !== 'postgres') return error;
  const hint = `check that the database runs, and its URL in ${config.urlEnv}`;
  const reason = cause instanceof Error ? describeNetworkError(cause) : '';
  // The system's own message would only repeat the reason.
  if (cause instanceof Error && reason !== cause.message)
    return new WaybillError(code, `the database "${config.name}" cannot be reached: ${reason}`, { hint });
  return new WaybillError(code, message, { cause, hint });
}

function selectPrimary([primary]: WeatherDatabase[]): WeatherDatabase {
  if (primary === undefined) throw new WaybillError('internal_error', 'no database was opened');
  return primary;
}

async function closeAll(databases: readonly WeatherDatabase[]): Promise<void> {
  const results = await Promise.allSettled(databases.map((database) => database.close()));
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}
