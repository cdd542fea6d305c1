import { connect, type Socket } from 'node:net';
import postgres from 'postgres';
import type { PostgresConfig } from '../../core/config/weather/databases.ts';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';

const maxBackoffSeconds = 1;

/** Options for a client of the driver, in addition to the server's address. */
interface DriverOptions {
  maxConnections: number;
  /** The number of statements to send on a connection without waiting for the first result. */
  inTurn: number;
  /** Whether the driver replaces connections that are 30 to 60 minutes old. */
  isRenewed: boolean;
  /** Called when a connection was closed, before the statements that were waiting on it fail. */
  onClose?: () => void;
}

/** Creates clients for a server. A client connects when it is first used. */
export type Connect = (options: DriverOptions) => postgres.Sql;

/**
 * Prepares to connect to a PostgreSQL server. All sessions are read-only, even if the role could write.
 * `deadlineMs` limits how long a read may take.
 *
 * @throws `secrets_invalid` if `url` is not a valid URL.
 */
export function connectTo(config: PostgresConfig, url: string, deadlineMs: number): Connect {
  // The timeouts in the server have to be shorter than ours. Otherwise, a slow query looks like a dead
  // connection.
  const statementTimeoutMs = Math.min(config.statementTimeoutMs, Math.ceil(deadlineMs * 0.8));
  const lockTimeoutMs = config.lockTimeoutMs < statementTimeoutMs ? config.lockTimeoutMs : 0;
  return ({ maxConnections, inTurn, isRenewed, onClose = () => undefined }) => {
    /** Not included in the driver's types. */
    const pipelining = { max_pipeline: inTurn };
    try {
      return preparing(
        openClient(url, {
          max: maxConnections,
          ...pipelining,
          ...(isRenewed ? {} : { max_lifetime: null }),
          connect_timeout: Math.ceil(config.connectTimeoutMs / 1000),
          backoff: (attempt: number) => Math.min(0.05 * 2 ** attempt, maxBackoffSeconds),
          // Saves a query on each new connection. The driver would ask for the server's array types, but
          // drizzle parses arrays itself.
          fetch_types: false,
          onnotice: () => undefined,
          onclose: onClose,
          connection: {
            application_name: 'waybill-weather',
            default_transaction_read_only: true,
            statement_timeout: statementTimeoutMs,
            lock_timeout: lockTimeoutMs,
            search_path: config.schema,
            TimeZone: 'UTC',
            DateStyle: 'ISO',
          },
        }),
      );
    } catch {
      // Do not include the original error, because it contains the URL with the password.
      throw new WaybillError('secrets_invalid', `the secret ${config.urlEnv} is not the URL of a database`, {
        hint: 'expected postgres://user:password@host:5432/database',
      });
    }
  };
}

/** The address that the driver is about to connect to. */
interface ServerAddress {
  host: readonly string[];
  port: readonly number[];
  path: string | false;
}

/**
 * Creates a client whose `end` also destroys connections that the server does not close. The driver itself
 * only closes its own side and then waits for the server. Throws if `url` is invalid.
 */
export function openClient(url: string, options: postgres.Options<Record<string, never>>): postgres.Sql {
  // The driver would also connect to the server of a mysql:// URL.
  if (!/^postgres(?:ql)?:\/\//i.test(url)) throw new TypeError('not the URL of a PostgreSQL server');
  const sockets = new Set<Socket>();
  let attempts = 0;
  /** Not included in the driver's types. */
  const connecting = {
    socket: ({ host, port, path }: ServerAddress): Socket => {
      const index = attempts++ % host.length;
      const at = { host: host[index] ?? '', port: port[index] ?? 5432 };
      const socket = path ? connect(path) : connect(at);
      sockets.add(socket);
      for (const one of sockets) if (one.destroyed) sockets.delete(one);
      // The driver looks at the host when it sets up TLS.
      return Object.assign(socket, at);
    },
  };
  const client = postgres(url, { ...options, ...connecting });
  const end: postgres.Sql['end'] = async (limit) => {
    await client.end(limit);
    for (const socket of sockets) socket.destroy();
  };
  return replacing(client, 'end', end);
}

function replacing<Name extends keyof postgres.Sql>(
  client: postgres.Sql,
  method: Name,
  by: postgres.Sql[Name],
): postgres.Sql {
  return new Proxy(client, {
    get: (target, name, receiver): unknown => (name === method ? by : Reflect.get(target, name, receiver)),
  });
}

/**
 * Makes drizzle use prepared statements, so that the server parses and plans each statement only once per
 * connection. The driver only prepares its own statements.
 */
function preparing(client: postgres.Sql): postgres.Sql {
  return withUnsafe(client, (text, parameters, options) =>
    client.unsafe(text, parameters, { ...options, prepare: true }),
  );
}

/**
 * Returns a client that sends drizzle's statements with another function. Drizzle uses the `unsafe` method to
 * send them.
 */
export function withUnsafe(client: postgres.Sql, unsafe: postgres.Sql['unsafe']): postgres.Sql {
  return replacing(client, 'unsafe', unsafe);
}

interface WatchedQuery {
  since: number;
  until: number;
  /** null once the caller's promise has settled. The query itself may still be running. */
  reject: ((error: unknown) => void) | null;
}

/** Resolves or rejects along with the work. If the work takes too long, rejects with the code ETIMEDOUT. */
export type QueryTimeout = <T>(work: Promise<T>) => Promise<T>;

/**
 * Enforces a time limit on queries. A single timer checks all of them, because a timer per query would be too
 * expensive for short ones. Calls `onDead` if a query is late and nothing at all was received while it was
 * waiting, or if a late query still has no result after waiting as long again. A connection that is merely
 * slow is not considered dead.
 */
export function openWatchdog(withinMs: number, clock: Clock, onDead: () => void): QueryTimeout {
  const watched = new Set<WatchedQuery>();
  let timer: Timer | undefined;
  let answeredAt = -Infinity;
  const look = (): void => {
    timer = undefined;
    const now = clock.monotonic();
    const late = [...watched].filter(({ until }) => until <= now);
    const isDead = late.some(({ since, reject }) => reject === null || answeredAt < since);
    for (const each of late) {
      const { reject } = each;
      if (isDead || reject === null) watched.delete(each);
      each.until = now + withinMs;
      each.reject = null;
      reject?.(Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' }));
    }
    if (isDead) onDead();
    const next = Math.min(...[...watched].map(({ until }) => until));
    if (next < Infinity) lookIn(next - now);
  };
  const lookIn = (milliseconds: number): void => {
    timer ??= clock.timeout(Math.ceil(milliseconds), look, { unref: true });
  };
  return (work) =>
    new Promise((resolve, reject) => {
      const since = clock.monotonic();
      const mine: WatchedQuery = { since, until: since + withinMs, reject };
      watched.add(mine);
      lookIn(withinMs);
      const settled = (): void => {
        watched.delete(mine);
        answeredAt = clock.monotonic();
      };
      work.then(
        (value) => {
          settled();
          resolve(value);
        },
        (error: unknown) => {
          // A query that was never sent does not tell us whether the connection works.
          if (neverSent(error)) watched.delete(mine);
          else settled();
          mine.reject?.(error);
        },
      );
    });
}

function neverSent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('POOL_');
}
