import type { Clock } from '../core/lib/clock.ts';
import type { DatabaseConfig } from '../core/config/weather/databases.ts';
import type { Secrets } from '../core/lib/secrets.ts';
import { asWaybillError, WaybillError } from '../core/lib/errors.ts';
import type { WeatherDatabase } from './database/database.ts';
import { openDatabase } from './database/open-database.ts';
import { openWhenThere } from './database/open-when-there.ts';
import { createReader, longestReadMs, type WeatherReader } from './reader.ts';

export interface OpenReaderOptions {
  databases: readonly DatabaseConfig[];
  secrets: Secrets;
  clock: Clock;
  /** Longest time that one read may take; 5 s if not given. */
  deadlineMs?: number;
  /**
   * Called for a database that is away where the program starts nevertheless, and has it opened when it is
   * back. Without it that is an error.
   */
  onAway?: (name: string, error: unknown) => void;
}

/** The steps of starting the reader. A failure is reported as `weather: <context>: <reason>`. */
export type StartContext = 'load config' | 'open databases' | 'select primary database' | 'build app';

/**
 * Opens and probes every configured database and returns the reader of the first. An error has
 * its context before the message: `config.databases requires at least one entry`, `open databases: …`,
 * `select primary database: …`.
 */
export async function openWeatherDatabases(options: OpenReaderOptions): Promise<WeatherReader> {
  if (options.databases.length === 0)
    throw new WaybillError('config_invalid', 'config.databases requires at least one entry', {
      hint: 'name a database under "databases"; docs/weather-contract.md says what it must hold',
    });
  const databases = await inContext('open databases', () => openAll(options));
  const primary = await inContext('select primary database', () => selectPrimary(databases));
  const { clock, deadlineMs = longestReadMs } = options;
  return createReader({ database: primary, clock, deadlineMs }, () => closeAll(databases));
}

/** The same failure with the step that it happened in before its message. */
export async function inContext<T>(context: StartContext, work: () => Promise<T> | T): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    const { code, message, hint, cause, findings } = asWaybillError(thrown);
    throw new WaybillError(code, `${context}: ${message}`, {
      ...(hint === undefined ? {} : { hint }),
      cause,
      findings,
    });
  }
}

async function openAll({
  databases,
  secrets,
  clock,
  deadlineMs = longestReadMs,
  onAway,
}: OpenReaderOptions): Promise<WeatherDatabase[]> {
  const opened: WeatherDatabase[] = [];
  try {
    for (const config of databases) {
      const open = (): Promise<WeatherDatabase> => openDatabase(config, { secrets, deadlineMs });
      const database = onAway === undefined ? await open() : await openWhenThere(config.name, open, clock);
      opened.push(database);
      await database.probe().catch((error: unknown) => {
        if (onAway === undefined || asWaybillError(error).code !== 'database_unavailable') throw error;
        onAway(config.name, error);
      });
    }
    return opened;
  } catch (error) {
    await closeAll(opened).catch(() => undefined);
    throw error;
  }
}

function selectPrimary([primary]: WeatherDatabase[]): WeatherDatabase {
  if (primary === undefined) throw new WaybillError('internal_error', 'no database was opened');
  return primary;
}

async function closeAll(databases: readonly WeatherDatabase[]): Promise<void> {
  const results = await Promise.allSettled(databases.map((database) => database.close()));
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}
