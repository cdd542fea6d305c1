import type { Sql } from 'postgres';
import { systemClock } from '../../../core/lib/clock.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { createSemaphore } from '../../../core/lib/parallel.ts';
import { openClient, openWatchdog, type QueryTimeout } from '../../database/connect.ts';
import { type Statements, type Transaction, withSavepoints, type WritableDatabase } from './upsert.ts';

const statementSeconds = 60;
const lockSeconds = 30;
const usualLimits = {
  clock: systemClock,
  connectSeconds: 10,
  /** How long to wait for a result, in milliseconds, in case the server does not enforce its own limit. */
  answerMs: (statementSeconds + 15) * 1000,
};
const maxBackoffSeconds = 1;

/** The single connection, and whether it has been closed since it was last opened. */
interface FeedConnection {
  client: Sql;
  inTime: QueryTimeout;
  isLost: boolean;
}

/**
 * Opens a PostgreSQL database for writing. The connection is made on first use. Throws `secrets_invalid` if
 * `url` is not a valid URL.
 */
export async function openServer(
  url: string,
  schema = 'weather',
  { clock, connectSeconds, answerMs } = usualLimits,
): Promise<WritableDatabase> {
  const open = (): FeedConnection => connect(url, schema, connectSeconds, inTime);
  const inTime = openWatchdog(answerMs, clock, () => renew(line));
  let line = open();
  const renew = (lost: FeedConnection): void => {
    if (line !== lost) return;
    line = open();
    void lost.client.end({ timeout: 0 }).catch(() => undefined);
  };
  const turns = createSemaphore(1);
  // There is only one connection, so callers have to take turns.
  const inTurn = async <T>(work: () => Promise<T>): Promise<T> => {
    const release = await turns.acquire(1);
    return work().finally(release);
  };
  const single = async <T>(work: (statements: Statements) => Promise<T>): Promise<T> => {
    const used = line;
    return work(statementsOf(used)).catch((error: unknown) => {
      if (endsLine(error)) renew(used);
      throw error;
    });
  };
  return {
    query: (text, values) => inTurn(() => single((statements) => statements.query(text, values))),
    run: (text) => inTurn(() => single((statements) => statements.run(text))),
    transaction: (work) => inTurn(() => transactionOn(line, work, renew)),
    close: () => line.client.end({ timeout: 5 }),
  };
}

/**
 * Runs a transaction without the driver's `begin`, which crashes the process if the connection is closed,
 * because it still sends a rollback. The driver's `reserve` is no alternative: it waits forever for a
 * connection that is not open yet. Once the connection has been closed, nothing more is sent, so that the
 * rest of the transaction does not run on a new one.
 */
async function transactionOn<T>(
  line: FeedConnection,
  work: (transaction: Transaction) => Promise<T>,
  renew: (lost: FeedConnection) => void,
): Promise<T> {
  const open = statementsOf(line);
  await open.run('begin').catch((error: unknown) => {
    if (endsLine(error)) renew(line);
    throw error;
  });
  line.isLost = false;
  const statements = whileOpen(line, open);
  try {
    const result = await work(withSavepoints(statements));
    await statements.run('commit');
    return result;
  } catch (error) {
    const isUndone =
      !endsLine(error) &&
      (await statements.run('rollback').then(
        () => true,
        () => false,
      ));
    if (!isUndone) renew(line);
    throw error;
  }
}

/**
 * Reports whether the connection can no longer be used after this error from the driver or the server. If so,
 * it must be replaced. When a connection ends during a statement, version 3.4 of the driver sends nothing on
 * the next connection either, because `closed` in its `connection.js` does not reset `nextWriteTimer`. Every
 * later attempt to connect then takes until its timeout.
 */
function endsLine(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false;
  return error.name !== 'PostgresError' || ('severity' in error && error.severity === 'FATAL');
}

function whileOpen(line: FeedConnection, statements: Statements): Statements {
  const check = (): void => {
    if (line.isLost)
      throw Object.assign(new Error('the connection was closed'), { code: 'CONNECTION_CLOSED' });
  };
  return {
    async query(text, values) {
      check();
      return statements.query(text, values);
    },
    async run(text) {
      check();
      await statements.run(text);
    },
  };
}

function statementsOf({ client, inTime }: FeedConnection): Statements {
  return {
    query: async (text, values) => [...(await inTime(client.unsafe(text, values as never[])))],
    run: async (text) => {
      await inTime(client.unsafe(text).simple());
    },
  };
}

function connect(url: string, schema: string, connectSeconds: number, inTime: QueryTimeout): FeedConnection {
  try {
    const client = openClient(url, {
      max: 1,
      connect_timeout: connectSeconds,
      fetch_types: false,
      backoff: (attempt: number) => Math.min(0.05 * 2 ** attempt, maxBackoffSeconds),
      onnotice: () => undefined,
      onclose: () => {
        line.isLost = true;
      },
      connection: {
        application_name: 'waybill-weather-feed',
        search_path: schema,
        TimeZone: 'UTC',
        statement_timeout: statementSeconds * 1000,
        lock_timeout: lockSeconds * 1000,
      },
    });
    const line: FeedConnection = { client, inTime, isLost: false };
    return line;
  } catch {
    // Do not include the original error, because it contains the URL with the password.
    throw new WaybillError('secrets_invalid', 'the secret of the weather database to write to is not a URL', {
      hint: 'expected postgres://user:password@host:5432/database',
    });
  }
}
