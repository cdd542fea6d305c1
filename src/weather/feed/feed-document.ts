import { WaybillError } from '../../core/lib/errors.ts';
import { recognise, type Recognised } from './documents/recognise.ts';
import { NothingToLoad, reasonOf } from './documents/rows.ts';
import { load } from './tables/load-document.ts';
import type { Statements, WritableDatabase } from './tables/upsert.ts';

export interface Arrived {
  /** The path or URL, for display. */
  place: string;
  /**
   * The file name of the document, or one made up for it. Some kinds of documents cannot be read without it.
   */
  name: string;
  text: string;
  /** When the document was requested. If null, the times in the document are used. */
  receivedAt: Date | null;
  /** Additional statements to run in the same transaction. */
  alongside?: (statements: Statements) => Promise<void>;
}

export interface FeedResult {
  place: string;
  /**
   * `unchanged` if all of its data had already been stored. `skipped` if it has no data that we use. `failed`
   * if it is invalid or could not be fetched.
   */
  outcome: 'loaded' | 'unchanged' | 'skipped' | 'failed';
  families: string[];
  rows: number;
  /** Why the document was skipped or failed. */
  reason: string | null;
  /** Invalid items that were skipped, with their position and the reason. */
  leftOut: string[];
}

/**
 * Reads a document and stores its records, either all of them or none. Problems with the document are
 * returned in the result. Throws the database's errors: `database_unavailable`, `schema_mismatch` or
 * `internal_error`.
 */
export async function feedDocument(target: WritableDatabase, arrived: Arrived): Promise<FeedResult> {
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

/** Creates the result for a document that changed nothing in the database. */
export function notFed(
  place: string,
  outcome: 'unchanged' | 'skipped' | 'failed',
  reason: string | null,
): FeedResult {
  return { place, outcome, families: [], rows: 0, reason, leftOut: [] };
}
