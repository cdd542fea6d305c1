import { sql } from 'drizzle-orm';
import type { PostgresConfig } from '../../core/config/weather/databases.ts';
import { type Clock, systemClock } from '../../core/lib/clock.ts';
import { openAdmission } from './admission.ts';
import { connectTo, openWatchdog } from './connect.ts';
import { openOwn, openShared } from './connections.ts';
import type { Connections, WeatherDatabase } from './database.ts';
import { databaseError } from './errors.ts';

/**
 * Single statements that share a connection at once: they are sent together and answered in turn, which saves
 * half of what a read costs.
 */
const statementsInTurn = 8;

/** How many reads use some connections at once, for how long, and how they fail. */
type Lane = <T>(family: string, read: () => Promise<T>) => Promise<T>;

/**
 * Read-only connections: the session refuses writes, whatever the role may do. Single statements and
 * snapshots have separate connections, since a statement waits for all earlier ones on its connection. Each
 * family has a share of them. A read takes at most `deadlineMs`, its wait for a connection included. A line
 * counts as dead if queries get neither a row nor the server's own time-out. All its connections are then
 * replaced.
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

/** How many of the connections are for single statements; none where all reads share a single one. */
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
  const admit = openAdmission({ most: reads, share, waitMs }, clock);
  const inTime = openWatchdog(deadlineMs, clock, () => connections.renew());
  const admitted = async <T>(family: string, read: () => Promise<T>): Promise<T> => {
    const release = await admit(family);
    // Until the server has answered: a read that was given up still holds its connection.
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
