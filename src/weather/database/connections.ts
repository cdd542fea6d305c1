import { drizzle } from 'drizzle-orm/postgres-js';
import type { Sql } from 'postgres';
import type { Clock } from '../../core/lib/clock.ts';
import { type Connect, withUnsafe } from './connect.ts';
import { closeSeconds, type Queries, type ReadFunction, type ServerConnections } from './database.ts';
import { isCutOff } from './database-errors.ts';

/** A client with a single connection. It is used for one read at a time. */
interface ReadConnection {
  client: Sql;
  /** Sends nothing once the connection has been lost. */
  queries: Queries;
  /** True if the connection was closed during a read. */
  isLost: boolean;
  /**
   * When to stop reusing the connection, in monotonic milliseconds. It is replaced now and then because
   * servers accumulate a lot of state per session.
   */
  until: number;
}

/**
 * We replace connections ourselves, because the driver might do it between two statements of a transaction.
 */
const lifetimeMs = 45 * 60_000;

/** Connections for reads with one or more statements. A connection is used for one read at a time. */
interface OwnConnections extends ServerConnections {
  /** Runs several statements in one read-only transaction, so that they all see the same data. */
  snapshot<T>(work: ReadFunction<T>): Promise<T>;
}

/**
 * Opens a connection for each read in progress. The caller has to limit how many there are. Up to `inTurn`
 * statements of a read are sent together.
 *
 * This does not use the driver's `begin`. In version 3.4, if the connection is closed during a transaction,
 * the driver still writes the next statement or `rollback` to it, in a callback whose error ends the process.
 * Instead, each client has a single connection and notices when it is closed. The read then sends nothing
 * more, and the client is not used again.
 */
export function openOwn(connect: Connect, inTurn: number, clock: Clock): OwnConnections {
  const free: ReadConnection[] = [];
  const used = new Map<ReadConnection, Promise<unknown>>();
  let isClosed = false;
  const onLine = async <T>(work: (line: ReadConnection) => Promise<T>): Promise<T> => {
    const line = free.pop() ?? openLine(connect, inTurn, clock.monotonic() + lifetimeMs);
    line.isLost = false;
    const done = work(line);
    used.set(line, done);
    try {
      return await done;
    } catch (error) {
      // Once a connection has been closed during a statement, the driver would hang on the client's next one.
      if (isCutOff(error)) line.isLost = true;
      throw error;
    } finally {
      // If it is not there, `renew` has already closed it.
      if (used.delete(line)) {
        if (isClosed || line.isLost || clock.monotonic() >= line.until) void line.client.end({ timeout: 0 });
        else free.push(line);
      }
    }
  };
  return {
    one: (work) => onLine(({ queries }) => work(queries)),
    snapshot: (work) => onLine((line) => inSnapshot(line, work)),
    renew: () => {
      for (const line of [...free.splice(0), ...used.keys()]) {
        line.isLost = true;
        void line.client.end({ timeout: 0 });
      }
      used.clear();
    },
    close: async () => {
      isClosed = true;
      const enough = new AbortController();
      const done = Promise.allSettled(used.values()).then(() => enough.abort());
      if (used.size > 0)
        await Promise.race([done, clock.sleep(closeSeconds * 1000, enough.signal)]).catch(() => undefined);
      await Promise.all([...free.splice(0), ...used.keys()].map(({ client }) => client.end({ timeout: 0 })));
    },
  };
}

function openLine(connect: Connect, inTurn: number, until: number): ReadConnection {
  const onClose = (): void => {
    line.isLost = true;
  };
  const client = connect({ maxConnections: 1, inTurn, isRenewed: false, onClose });
  const whileOpen = withUnsafe(client, (...statement) => {
    // The driver would open a new connection and run the statement there, outside of the transaction.
    if (line.isLost) throw closed();
    return client.unsafe(...statement);
  });
  const line: ReadConnection = { client, queries: drizzle(whileOpen), isLost: false, until };
  return line;
}

async function inSnapshot<T>(line: ReadConnection, work: ReadFunction<T>): Promise<T> {
  await line.client.unsafe('begin isolation level repeatable read read only').simple();
  // Beginning the transaction may have closed an older connection, which would have set this.
  line.isLost = false;
  try {
    const result = await work(line.queries);
    await send(line, 'commit');
    return result;
  } catch (error) {
    if (!isCutOff(error)) await send(line, 'rollback').catch(() => (line.isLost = true));
    throw error;
  }
}

async function send(line: ReadConnection, statement: string): Promise<void> {
  if (line.isLost) throw closed();
  await line.client.unsafe(statement).simple();
}

function closed(): Error {
  return Object.assign(new Error('the connection was closed'), { code: 'CONNECTION_CLOSED' });
}

interface Pool {
  client: Sql;
  queries: Queries;
}

/**
 * Opens up to `maxConnections` connections for single statements. Up to `inTurn` statements can be waiting on
 * the same connection.
 */
export function openShared(connect: Connect, maxConnections: number, inTurn: number): ServerConnections {
  const open = (): Pool => {
    const client = connect({ maxConnections, inTurn, isRenewed: true });
    return { client, queries: drizzle(client) };
  };
  let pool = open();
  const replace = (lost: Pool, timeout: number): void => {
    if (pool !== lost) return;
    pool = open();
    void lost.client.end({ timeout });
  };
  return {
    one: async (work) => {
      const used = pool;
      try {
        return await work(used.queries);
      } catch (error) {
        // The driver may never use that connection again. Let the other reads finish, and switch to a new
        // client.
        if (isCutOff(error)) replace(used, closeSeconds);
        throw error;
      }
    },
    renew: () => replace(pool, 0),
    close: () => pool.client.end({ timeout: closeSeconds }),
  };
}
