import { WaybillError } from '../../core/lib/errors.ts';

/**
 * Converts an error from a database to a `WaybillError`. Its message never contains the statement: drizzle's
 * errors include the SQL, so only the error inside them is used, and kept as the cause.
 */
export function databaseError(thrown: unknown, name: string): WaybillError {
  const origin = originOf(thrown);
  if (origin instanceof WaybillError) return origin;
  const code = codeOf(origin);
  const options = { cause: origin };
  if (isUnavailable(code))
    return new WaybillError('database_unavailable', `the database "${name}" ${reasonOf(code)} (${code})`, {
      hint: 'try again in a moment; if it still fails, check the database and the network',
      ...retryOf(origin),
      ...options,
    });
  if (['42P01', '42703', '3F000'].includes(code))
    return new WaybillError(
      'schema_mismatch',
      `the tables of the database "${name}" do not have the shape of the contract (${code})`,
      { hint: 'let the feeder create or migrate them; docs/weather-contract.md describes them', ...options },
    );
  return new WaybillError('internal_error', `the database "${name}" refused a query (${code || 'no code'})`, {
    hint:
      code === '42501'
        ? 'grant SELECT on the weather tables to the role that reads them'
        : 'the log has the details',
    ...options,
  });
}

/**
 * Explains a schema mismatch in the outlook tables, which may still have the old structure. Returns other
 * errors unchanged.
 */
export function outlookShapeRequired(thrown: unknown): unknown {
  if (!(thrown instanceof WaybillError) || thrown.code !== 'schema_mismatch') return thrown;
  return new WaybillError(
    'schema_mismatch',
    'convective outlooks: the database requires weather.outlook.v2 (outlook_runs, outlooks, outlook_discussions)',
    { hint: 'migrate the tables with the feeder; docs/weather-contract.md describes them', cause: thrown },
  );
}

/**
 * Explains a schema mismatch in the tables of places, which a feeder may not have added yet. Returns other
 * errors unchanged.
 */
export function placesRequired(thrown: unknown): unknown {
  if (!(thrown instanceof WaybillError) || thrown.code !== 'schema_mismatch') return thrown;
  return new WaybillError(
    'schema_mismatch',
    'places: the database requires stations.state and the tables locations, offices and zones',
    { hint: 'let the feeder add them; docs/weather-contract.md describes them', cause: thrown },
  );
}

/**
 * Reports whether a connection was closed during a statement, or could not be opened in time. After the
 * former, version 3.4 of the driver sends nothing on the next connection either, because `closed` in its
 * `connection.js` does not reset `nextWriteTimer`. Every later attempt to connect then takes until its
 * timeout.
 */
export function isCutOff(thrown: unknown): boolean {
  return /^(CONNECTION_CLOSED|CONNECT_TIMEOUT|ECONNRESET|EPIPE)$/.test(codeOf(originOf(thrown)));
}

/** If there was no free connection, returns how many seconds to wait before trying again. */
function retryOf(origin: unknown): { retryAfterSeconds?: number } {
  const isKnown = origin instanceof Error && 'retryAfterSeconds' in origin;
  return isKnown ? { retryAfterSeconds: Number(origin.retryAfterSeconds) } : {};
}

function originOf(thrown: unknown): unknown {
  let origin = thrown;
  while (origin instanceof Error && origin.cause !== undefined && codeOf(origin) === '')
    origin = origin.cause;
  return origin;
}

function codeOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return '';
  if ('code' in thrown && typeof thrown.code === 'string') return thrown.code;
  // Node.js tries all addresses of a hostname. If none works, it wraps the errors in one.
  return thrown instanceof AggregateError ? codeOf(thrown.errors[0]) : '';
}

const network = new Set([
  'CONNECT_TIMEOUT',
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
  'POOL_FULL',
  'POOL_TIMEOUT',
]);

/**
 * Class 08 is about the connection, 28 about authorization, 53 about resources, and 57P0 about a shutdown.
 * 57014 is a statement timeout, and 55P03 a lock timeout.
 */
function isUnavailable(code: string): boolean {
  return network.has(code) || /^(08...|28...|53...|57P0.|57014|55P03)$/.test(code);
}

/** If a connection ends during a statement, the driver discards the server's message. */
const isEnded = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  'ECONNRESET',
  'EPIPE',
]);

function reasonOf(code: string): string {
  if (code === '57014') return 'did not answer a query in time';
  if (code === '55P03') return 'has locked a table for too long';
  if (code === 'ETIMEDOUT') return 'cannot be reached, or did not answer in time';
  if (code === 'POOL_FULL' || code === 'POOL_TIMEOUT') return 'has no free connection';
  if (code.startsWith('57P0') || isEnded.has(code)) return 'is shutting down or ended the connection';
  if (code.startsWith('28')) return 'refuses the login';
  if (code.startsWith('53')) return 'is overloaded';
  return 'cannot be reached';
}
