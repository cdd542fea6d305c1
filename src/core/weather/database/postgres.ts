import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/postgres-js';
import postgres from 'postgres';
import { systemClock, type Clock } from '../../clock.ts';
import { WaybillError } from '../../errors.ts';
import { createSemaphore } from '../../semaphore.ts';
import type { Queries, WeatherDatabase } from './database.ts';
import { databaseError } from './errors.ts';
import type { PostgresConfig } from './settings.ts';
import { openWatchdog } from './query-watchdog.ts';

const closeSeconds = 5;
const longestBackoffSeconds = 1;
/**
 * Single statements that share a connection at once: they are sent together and answered in turn, which saves
 * half of what a read costs. One waits at most for these many statement time-outs before it.
 */
const statementsInTurn = 8;
/** The driver's types do not know this option. */
const pipelining = { max_pipeline: statementsInTurn };

/** Connections to one server, opened as they are needed. */
interface Pool {
  queries: Queries;
  close(options: { timeout: number }): Promise<void>;
}

/**
 * A pool of connections that can only read: the session refuses writes, whatever the role may do. A line that
 * is dead without having been closed is noticed by a query that is not answered, neither by a row nor by the
 * server's own time-out; then all connections are made anew.
 */
export function openPostgres(
  config: PostgresConfig,
  url: string,
  clock: Clock = systemClock,
): WeatherDatabase {
  const acquire = acquireWithin(config.connectTimeoutMs, config.poolSize * statementsInTurn, clock);
  const answerWithinMs = config.connectTimeoutMs + statementsInTurn * config.statementTimeoutMs;
  let pool = openPool(config, url);
  const inTime = openWatchdog(answerWithinMs, clock, () => {
    void pool.close({ timeout: 0 });
    pool = openPool(config, url);
  });
  const guarded = async <T>(share: number, work: (queries: Queries) => Promise<T>): Promise<T> => {
    try {
      const release = await acquire(share);
      try {
        return await inTime(work(pool.queries));
      } finally {
        release();
      }
    } catch (error) {
      throw databaseError(error, config.name);
    }
  };
  return {
    name: config.name,
    one: (work) => guarded(1, work),
    snapshot: (work) =>
      // A transaction has its connection for itself.
      guarded(statementsInTurn, (queries) =>
        queries.transaction(work, { isolationLevel: 'repeatable read', accessMode: 'read only' }),
      ),
    probe: () =>
      guarded(1, async (queries) => {
        await queries.execute(sql`select 1`);
      }),
    close: () => pool.close({ timeout: closeSeconds }),
  };
}

/** A semaphore whose requests give up after `withinMs`, with the code POOL_TIMEOUT. */
function acquireWithin(
  withinMs: number,
  capacity: number,
  clock: Clock,
): (permits: number) => Promise<() => void> {
  const semaphore = createSemaphore(capacity);
  return async (permits) => {
    const release = semaphore.tryAcquire(permits);
    if (release !== null) return release;
    const late = new AbortController();
    const timer = clock.timeout(withinMs, () =>
      late.abort(Object.assign(new Error('no free connection'), { code: 'POOL_TIMEOUT' })),
    );
    try {
      return await semaphore.acquire(permits, late.signal);
    } finally {
      timer.cancel();
    }
  };
}

function openPool(config: PostgresConfig, url: string): Pool {
  const client = connect(config, url);
  const queries: unknown = drizzle(preparing(client));
  return {
    queries: queries as Queries,
    close: (options) => client.end(options),
  };
}

/**
 * Statements of drizzle are parsed and planned by the server once for each connection, as the driver does
 * with its own.
 */
function preparing(client: postgres.Sql): postgres.Sql {
  const unsafe: postgres.Sql['unsafe'] = (text, parameters, options) =>
    client.unsafe(text, parameters, { ...options, prepare: true });
  return new Proxy(client, {
    get: (target, name, receiver): unknown =>
      name === 'unsafe' ? unsafe : Reflect.get(target, name, receiver),
  });
}

function connect(config: PostgresConfig, url: string): postgres.Sql {
  try {
    return postgres(url, {
      max: config.poolSize,
      ...pipelining,
      connect_timeout: Math.ceil(config.connectTimeoutMs / 1000),
      backoff: (attempt: number) => Math.min(0.05 * 2 ** attempt, longestBackoffSeconds),
      // Asks for the array types of the server at every connection, which drizzle parses by itself.
      fetch_types: false,
      onnotice: () => undefined,
      connection: {
        application_name: 'waybill-weather',
        default_transaction_read_only: true,
        statement_timeout: config.statementTimeoutMs,
        search_path: config.schema,
        TimeZone: 'UTC',
        DateStyle: 'ISO',
      },
    });
  } catch {
    // The reason of a URL that cannot be parsed holds the URL, and with it the password.
    throw new WaybillError('secrets_invalid', `the secret ${config.urlEnv} is not the URL of a database`, {
      hint: 'expected postgres://user:password@host:5432/database',
    });
  }
}
