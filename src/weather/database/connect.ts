import { connect, type Socket } from 'node:net';
import postgres from 'postgres';
import type { PostgresConfig } from '../../core/config/weather/databases.ts';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';

const maxBackoffSeconds = 1;

/** The driver's options for one connection, apart from its server. */
interface ConnectionOptions {
  /** Maximum number of connections. */
  maxConnections: number;
  /** How many statements may be sent on one connection before the first is answered. */
  inTurn: number;
  /**
   * Whether the driver closes a connection after 30 to 60 minutes and opens a new one for later statements.
   */
  isRenewed: boolean;
  /**
   * Called when one of its connections was closed, before the statements waiting on that connection are
   * notified.
   */
  onClose?: () => void;
}

/** Opens clients for one server. They connect on first use. */
export type Connect = (options: ConnectionOptions) => postgres.Sql;

/**
 * Connects to a PostgreSQL server. Every session is read-only, regardless of the role's permissions.
 * `deadlineMs` is the time limit of a read.
 *
 * @throws `secrets_invalid` if `url` is not a valid URL.
 */
export function connectTo(config: PostgresConfig, url: string, deadlineMs: number): Connect {
  // The server's own timeouts fire first, so that a slow query does not look like a dead connection.
  const statementTimeoutMs = Math.min(config.statementTimeoutMs, Math.ceil(deadlineMs * 0.8));
  const lockTimeoutMs = config.lockTimeoutMs < statementTimeoutMs ? config.lockTimeoutMs : 0;
  return ({ maxConnections, inTurn, isRenewed, onClose = () => undefined }) => {
    /** This option is missing from the driver's types. */
    const pipelining = { max_pipeline: inTurn };
    try {
      return preparing(
        openClient(url, {
          max: maxConnections,
          ...pipelining,
          ...(isRenewed ? {} : { max_lifetime: null }),
          connect_timeout: Math.ceil(config.connectTimeoutMs / 1000),
          backoff: (attempt: number) => Math.min(0.05 * 2 ** attempt, maxBackoffSeconds),
          // Otherwise the driver would query the server's array types on every connection. drizzle parses
          // arrays itself.
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
      // The error about an invalid URL contains the URL, including its password.
      throw new WaybillError('secrets_invalid', `the secret ${config.urlEnv} is not the URL of a database`, {
        hint: 'expected postgres://user:password@host:5432/database',
      });
    }
  };
}

/** The driver's options for the next connection. */
interface Target {
  host: readonly string[];
  port: readonly number[];
  path: string | false;
}

/**
 * Opens a client whose `end` also destroys connections that the server does not close. The driver alone would
 * only send its part of the shutdown and wait for the server's. Throws if `url` is invalid.
 */
export function openClient(url: string, options: postgres.Options<Record<string, never>>): postgres.Sql {
  const sockets = new Set<Socket>();
  let attempts = 0;
  /** This option is missing from the driver's types. */
  const connecting = {
    socket: ({ host, port, path }: Target): Socket => {
      const index = attempts++ % host.length;
      const at = { host: host[index] ?? '', port: port[index] ?? 5432 };
      const socket = path ? connect(path) : connect(at);
      sockets.add(socket);
      for (const one of sockets) if (one.destroyed) sockets.delete(one);
      // The driver reads the host for TLS.
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
 * Prepares drizzle's statements, so that the server parses and plans each one once per connection. The driver
 * does this only for its own statements.
 */
function preparing(client: postgres.Sql): postgres.Sql {
  return withUnsafe(client, (text, parameters, options) =>
    client.unsafe(text, parameters, { ...options, prepare: true }),
  );
}

/**
 * Returns the client with a different `unsafe`, which is the method that drizzle uses to send its statements.
 */
export function withUnsafe(client: postgres.Sql, unsafe: postgres.Sql['unsafe']): postgres.Sql {
  return replacing(client, 'unsafe', unsafe);
}

interface Watched {
  since: number;
  until: number;
  /** null once the caller has its result. The work itself may end later. */
  reject: ((error: unknown) => void) | null;
}

/** Settles like the work, or rejects with the code ETIMEDOUT if the work takes too long. */
export type Watchdog = <T>(work: Promise<T>) => Promise<T>;

/**
 * Watches queries with a single timer, because one timer per query would be too expensive for short queries.
 * Calls `onDead` if the connection returned nothing at all while a query was late, or if a late query is
 * still unanswered after the same time again. Slow responses alone do not end a connection.
 */
export function openWatchdog(withinMs: number, clock: Clock, onDead: () => void): Watchdog {
  const watched = new Set<Watched>();
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
      const mine: Watched = { since, until: since + withinMs, reject };
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
          // A query that never got a connection does not indicate whether the connection works.
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
