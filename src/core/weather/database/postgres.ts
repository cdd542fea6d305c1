import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/postgres-js';
import postgres from 'postgres';
import { systemClock, type Clock } from '../../clock.ts';
import { WaybillError } from '../../errors.ts';
import { openAdmission } from './admission.ts';
import type { Queries, WeatherDatabase } from './database.ts';
import { databaseError, isCutOff } from './errors.ts';
import type { PostgresConfig } from './settings.ts';
import { openWatchdog } from './query-watchdog.ts';

const closeSeconds = 5;
const longestBackoffSeconds = 1;
/**
 * Single statements that share a connection at once: they are sent together and answered in turn, which saves
 * half of what a read costs.
 */
const statementsInTurn = 8;
/** The driver's types do not know this option. */
const pipelining = { max_pipeline: statementsInTurn };

/** Connections to one server, opened as they are needed. */
interface Pool {
  queries: Queries;
  close(options: { timeout: number }): Promise<void>;
}

/** A pool that is made anew where the line is dead, and who may use it. */
interface Lane {
  run<T>(family: string, work: (queries: Queries) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/**
 * Connections that can only read: the session refuses writes, whatever the role may do. Single statements and
 * snapshots have connections of their own, since a statement waits for all that were sent before it on its
 * connection, and each family has a share of them. A read takes `deadlineMs` at most, its wait for a
 * connection included. A line that is dead without having been closed is noticed by queries that are not
 * answered, neither by a row nor by the server's own time-out; then all its connections are made anew.
 */
export function openPostgres(
  config: PostgresConfig,
  url: string,
  { clock = systemClock, deadlineMs = 5000 }: { clock?: Clock; deadlineMs?: number } = {},
): WeatherDatabase {
  const { singles, snapshots } = connectionsOf(config.poolSize);
  const lane = (connections: number, reads: number, share: number): Lane =>
    openLane({ ...config, poolSize: connections }, url, { reads, share, clock, deadlineMs });
  const ofSnapshots = lane(snapshots, snapshots, Math.ceil(snapshots / 2));
  const ofSingles =
    singles === 0 ? ofSnapshots : lane(singles, singles * statementsInTurn, singles * statementsInTurn);
  return {
    name: config.name,
    one: (work, family = 'any') => ofSingles.run(family, work),
    snapshot: (work, family = 'any') =>
      ofSnapshots.run(family, (queries) =>
        queries.transaction(work, { isolationLevel: 'repeatable read', accessMode: 'read only' }),
      ),
    probe: () =>
      ofSingles.run('probe', async (queries) => {
        await queries.execute(sql`select 1`);
      }),
    close: async () => {
      await Promise.all([ofSingles.close(), ...(singles === 0 ? [] : [ofSnapshots.close()])]);
    },
  };
}

/** How many of the connections are for single statements; none where all reads share a single one. */
function connectionsOf(poolSize: number): { singles: number; snapshots: number } {
  const singles = poolSize === 1 ? 0 : Math.max(1, Math.floor(poolSize / 4));
  return { singles, snapshots: poolSize - singles };
}

function openLane(
  config: PostgresConfig,
  url: string,
  limits: { reads: number; share: number; clock: Clock; deadlineMs: number },
): Lane {
  const { reads, share, clock, deadlineMs } = limits;
  const waitMs = Math.min(config.connectTimeoutMs, deadlineMs);
  const admit = openAdmission({ most: reads, share, waitMs }, clock);
  let pool = openPool(config, url, deadlineMs);
  const renew = (lost: Pool, timeout: number): void => {
    if (pool !== lost) return;
    pool = openPool(config, url, deadlineMs);
    void lost.close({ timeout });
  };
  const inTime = openWatchdog(deadlineMs, clock, () => renew(pool, 0));
  const admitted = async <T>(family: string, work: (queries: Queries) => Promise<T>): Promise<T> => {
    const release = await admit(family);
    const used = pool;
    try {
      return await work(used.queries);
    } catch (error) {
      // The driver may have silenced that connection for good; other reads end on theirs.
      if (isCutOff(error)) renew(used, closeSeconds);
      throw error;
    } finally {
      // Only now that the server has answered: a read that was given up still holds its connection.
      release();
    }
  };
  return {
    run: async (family, work) => {
      try {
        return await inTime(admitted(family, work));
      } catch (error) {
        throw databaseError(error, config.name);
      }
    },
    close: () => pool.close({ timeout: closeSeconds }),
  };
}

function openPool(config: PostgresConfig, url: string, deadlineMs: number): Pool {
  const client = connect(config, url, deadlineMs);
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

function connect(config: PostgresConfig, url: string, deadlineMs: number): postgres.Sql {
  // The server's own time-outs come first, so that a slow query does not look like a dead line.
  const statementTimeoutMs = Math.min(config.statementTimeoutMs, Math.ceil(deadlineMs * 0.8));
  const lockTimeoutMs = config.lockTimeoutMs < statementTimeoutMs ? config.lockTimeoutMs : 0;
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
        statement_timeout: statementTimeoutMs,
        lock_timeout: lockTimeoutMs,
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
