import { sql } from 'drizzle-orm';
import type { PostgresConfig } from '../../core/config/weather/databases.ts';
import { type Clock, systemClock } from '../../core/lib/clock.ts';
import { openAdmission } from './admission.ts';
import { connectTo, openWatchdog } from './connect.ts';
import { openOwn, openShared } from './connections.ts';
import type { Connections, WeatherDatabase } from './database.ts';
import { databaseError } from './errors.ts';

/**
 * Maximum number of single statements that share a connection concurrently. They are sent together and
 * answered in order, which halves the cost of a read.
 */
const statementsInTurn = 8;

/** Runs reads on a subset of the connections, with limits on admission and time. */
type Lane = <T>(family: string, read: () => Promise<T>) => Promise<T>;

/**
 * Opens read-only connections. The session rejects writes, regardless of the role's permissions. Single
 * statements and snapshots use separate connections, because a statement waits for all earlier ones on its
 * connection. Each family has a share of the connections. A read takes at most `deadlineMs`, including its
 * wait for a connection. The connections count as dead if queries get neither a row nor the server's own
 * timeout. All of them are then replaced.
 */
export function openPostgres(
  config: PostgresConfig,
  url: string,
  { clock = systemClock, deadlineMs = 5000 }: { clock?: Clock; deadlineMs?: number } = {},
): WeatherDatabase {
  const connect = connectTo(config, url, deadlineMs);
  const { singles, snapshots } = connectionsOf(config.poolSize);
  const lane = (connections: Connections, reads: number, share: number): Lane =>
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

/** Returns how many connections serve single statements, or 0 if all reads share one connection. */
function connectionsOf(poolSize: number): { singles: number; snapshots: number } {
  const singles = poolSize === 1 ? 0 : Math.max(1, Math.floor(poolSize / 4));
  return { singles, snapshots: poolSize - singles };
}

function openLane(
  connections: Connections,
  config: PostgresConfig,
  limits: { reads: number; share: number; clock: Clock; deadlineMs: number },
): Lane {
  const { reads, share, clock, deadlineMs } = limits;
  const waitMs = Math.min(config.connectTimeoutMs, deadlineMs);
  const admit = openAdmission({ maxConcurrent: reads, share, waitMs }, clock);
  const inTime = openWatchdog(deadlineMs, clock, () => connections.renew());
  const admitted = async <T>(family: string, read: () => Promise<T>): Promise<T> => {
    const release = await admit(family);
    // An abandoned read occupies its connection until the server has responded.
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
