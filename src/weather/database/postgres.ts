import { sql } from 'drizzle-orm';
import type { PostgresConfig } from '../../core/config/weather/databases.ts';
import { type Clock, systemClock } from '../../core/lib/clock.ts';
import { connectTo, openWatchdog } from './connect.ts';
import { openOwn, openShared } from './connections.ts';
import type { ServerConnections, WeatherDatabase } from './database.ts';
import { databaseError } from './database-errors.ts';
import { openAdmission } from './read-admission.ts';

/**
 * The maximum number of single statements waiting on the same connection. They are sent together and their
 * results arrive in order, which halves the cost of a read.
 */
const statementsInTurn = 8;

/**
 * Runs a read on its share of the connections, and limits how many reads run at a time and how long each
 * takes.
 */
type LimitedRead = <T>(family: string, read: () => Promise<T>) => Promise<T>;

/**
 * Opens a database for reading. The sessions are read-only, even if the role could write. Single statements
 * and snapshots use different connections, since a statement has to wait for all earlier ones on its
 * connection. A family can only use its share of the connections. A read takes at most `deadlineMs`,
 * including the wait for a connection. If queries get neither a result nor the server's own timeout error,
 * all connections are considered dead and replaced.
 */
export function openPostgres(
  config: PostgresConfig,
  url: string,
  { clock = systemClock, deadlineMs = 5000 }: { clock?: Clock; deadlineMs?: number } = {},
): WeatherDatabase {
  const connect = connectTo(config, url, deadlineMs);
  const { singles, snapshots } = connectionsOf(config.poolSize);
  const lane = (connections: ServerConnections, reads: number, share: number): LimitedRead =>
    openLane(connections, config, { reads, share, clock, deadlineMs });
  const own = openOwn(connect, statementsInTurn, clock);
  const onOwn = lane(own, snapshots, Math.ceil(snapshots / 2));
  const shared = singles === 0 ? own : openShared(connect, singles, statementsInTurn);
  const statements = singles * statementsInTurn;
  const onShared = singles === 0 ? onOwn : lane(shared, statements, statements);
  return {
    name: config.name,
    one: (work, family = 'any') => onShared(family, () => shared.one(work)),
    snapshot: (work, family = 'any') => onOwn(family, () => own.snapshot(work)),
    probe: () =>
      onShared('probe', () =>
        shared.one(async (queries) => {
          await queries.execute(sql`select 1`);
        }),
      ),
    close: async () => {
      await Promise.all([...new Set([own, shared])].map((connections) => connections.close()));
    },
  };
}

/**
 * Splits the pool into connections for single statements and for snapshots. With only one connection,
 * `singles` is 0 and everything uses the same one.
 */
function connectionsOf(poolSize: number): { singles: number; snapshots: number } {
  const singles = poolSize === 1 ? 0 : Math.max(1, Math.floor(poolSize / 4));
  return { singles, snapshots: poolSize - singles };
}

function openLane(
  connections: ServerConnections,
  config: PostgresConfig,
  limits: { reads: number; share: number; clock: Clock; deadlineMs: number },
): LimitedRead {
  const { reads, share, clock, deadlineMs } = limits;
  const waitMs = Math.min(config.connectTimeoutMs, deadlineMs);
  const admit = openAdmission({ maxConcurrent: reads, share, waitMs }, clock);
  const inTime = openWatchdog(deadlineMs, clock, () => connections.renew());
  const admitted = async <T>(family: string, read: () => Promise<T>): Promise<T> => {
    const release = await admit(family);
    // If a read is abandoned, its connection is still busy until the server has responded.
    return read().finally(release);
  };
  return async (family, read) => {
    try {
      return await inTime(admitted(family, read));
    } catch (error) {
      throw databaseError(error, config.name);
    }
  };
}
