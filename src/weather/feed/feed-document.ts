import { WaybillError } from '../../core/lib/errors.ts';
import { recognise, type Recognised } from './documents/recognise.ts';
import { NothingToLoad, reasonOf } from './documents/rows.ts';
import { load } from './tables/load.ts';
import type { Statements, Target } from './tables/upsert.ts';

/** A document from any source. */
export interface Arrived {
  /** A path or URL, for people to read. */
  place: string;
  /** The document's file name, real or assumed. Some documents lack information that only the name has. */
  name: string;
  text: string;
  /** The time of the request. If null, the document's own times count. */
  receivedAt: Date | null;
  /** Runs in the same transaction as the document's records. */
  alongside?: (statements: Statements) => Promise<void>;
}

/** The outcome for a document. */
export interface FeedResult {
  place: string;
  /**
   * `unchanged`: all of its data was already stored. `skipped`: it has no data for the reader. `failed`: it
   * is broken or could not be fetched.
   */
  outcome: 'loaded' | 'unchanged' | 'skipped' | 'failed';
  families: string[];
  /** Number of rows that were inserted or changed. */
  rows: number;
  /** Why it was skipped or failed. */
  reason: string | null;
  /** Broken items that were left out, each with its position and the reason. */
  leftOut: string[];
}

/**
 * Reads a document and writes either all of its records or none. Reports any fault of the document without
 * throwing. Throws the database's errors (`database_unavailable`, `schema_mismatch`, `internal_error`).
 */
export async function feedDocument(target: Target, arrived: Arrived): Promise<FeedResult> {
  const { place, name, text, receivedAt, alongside } = arrived;
  let recognised: Recognised;
  try {
    recognised = recognise(text, name, receivedAt);
  } catch (error) {
    const outcome = error instanceof NothingToLoad ? 'skipped' : 'failed';
    if (outcome === 'skipped' && alongside !== undefined) await load(target, [], alongside);
    return notFed(place, outcome, reasonOf(error));
  }
  const { records, leftOut } = recognised;
  try {
    const loaded = await load(target, records, alongside);
    return {
      place,
      outcome: loaded.rows > 0 ? 'loaded' : 'unchanged',
      families: [...new Set(records.map(({ family }) => family))],
      rows: loaded.rows,
      reason: null,
      leftOut: [...leftOut, ...loaded.leftOut],
    };
  } catch (error) {
    if (error instanceof WaybillError) throw error;
    return notFed(place, 'failed', reasonOf(error));
  }
}

/** Returns the outcome for a document from which nothing was written. */
export function notFed(
  place: string,
  outcome: 'unchanged' | 'skipped' | 'failed',
  reason: string | null,
): FeedResult {
  return { place, outcome, families: [], rows: 0, reason, leftOut: [] };
}
