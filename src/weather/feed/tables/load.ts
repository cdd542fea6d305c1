import { WaybillError } from '../../../core/lib/errors.ts';
import { databaseError } from '../../database/errors.ts';
import { BrokenDocument, reasonOf } from '../documents/faults.ts';
import type { Loadable } from '../documents/rows.ts';
import { oneFeederAtOnce } from './create-tables.ts';
import { loadRecord } from './load-record.ts';
import type { Statements, Target, Transaction } from './target.ts';

export interface Loaded {
  /** Rows that were inserted or changed; none where everything was there already. */
  rows: number;
  /** Records that the database refuses, and why; nothing of them was written. */
  leftOut: string[];
}

/**
 * Writes what a document held, in one transaction, and with it what `alongside` writes. What is there already
 * stays as it is, or is replaced by what is newer: loading twice changes nothing. Where the database refuses
 * one of several records, the others are written without it. Throws `BrokenDocument` where none is left, and
 * what the database throws (`database_unavailable`, `schema_mismatch`, `internal_error`).
 */
export async function load(
  target: Target,
  records: readonly Loadable[],
  alongside: (statements: Statements) => Promise<void> = () => Promise.resolve(),
): Promise<Loaded> {
  const attempt = (each: (transaction: Transaction, index: number) => Promise<number>): Promise<number> =>
    target.transaction(async (transaction) => {
      await oneFeederAtOnce(transaction);
      let rows = 0;
      for (const index of records.keys()) rows += await each(transaction, index);
      await alongside(transaction);
      return rows;
    });
  const loadAt = (statements: Statements, index: number): Promise<number> =>
    loadRecord(statements, records[index] as Loadable);
  try {
    return { rows: await attempt(loadAt), leftOut: [] };
  } catch (error) {
    if (!isRefused(error)) throw failure(error);
    if (records.length <= 1) throw refused(error);
  }
  const leftOut: string[] = [];
  const rows = await attempt(async (transaction, index) => {
    try {
      return await transaction.savepoint((statements) => loadAt(statements, index));
    } catch (error) {
      if (!isRefused(error)) throw error;
      leftOut.push(`${placeOf(records[index], index)}: ${reasonOf(refused(error))}`);
      return 0;
    }
  }).catch((error: unknown) => {
    throw failure(error);
  });
  if (leftOut.length === records.length) throw new BrokenDocument(leftOut[0]);
  return { rows, leftOut };
}

/**
 * What a single statement finds, outside any transaction. Throws what the database throws, in the same words
 * as `load`: a feeder that goes on while the database is away must know that it is.
 */
export async function lookUp(
  target: Pick<Target, 'query'>,
  text: string,
  values: unknown[],
): Promise<Record<string, unknown>[]> {
  try {
    return await target.query(text, values);
  } catch (error) {
    throw failure(error);
  }
}

/** Where the document has a record: `features[2]`. */
function placeOf(record: Loadable | undefined, index: number): string {
  return (record?.family === 'observation' ? record.place : undefined) ?? `record ${index}`;
}

/** Classes 21, 22 and 23: the values do not fit the table; or what the tables hold does not fit. */
function isRefused(error: unknown): error is BrokenDocument | (Error & { code: string }) {
  if (error instanceof BrokenDocument) return true;
  return error instanceof Error && 'code' in error && /^2[123]/.test(String(error.code));
}

function refused(error: BrokenDocument | (Error & { code: string })): BrokenDocument {
  if (error instanceof BrokenDocument) return error;
  return new BrokenDocument(`the database refuses it: ${error.message.slice(0, 300)} (${error.code})`);
}

/** What goes wrong with the database itself, for whoever runs the feeder. */
export function failure(thrown: unknown): WaybillError {
  const error = databaseError(thrown, 'weather.feed');
  const code = thrown instanceof Error && 'code' in thrown ? thrown.code : null;
  const hint =
    code === '42501'
      ? 'let the role of weather.feed.url_env write to the weather tables, and own their schema for --create-tables'
      : code === '3F000' || code === '42P01'
        ? 'give --create-tables to have the tables made'
        : error.hint;
  return new WaybillError(error.code, error.message, {
    ...(hint === undefined ? {} : { hint }),
    cause: error.cause,
  });
}
