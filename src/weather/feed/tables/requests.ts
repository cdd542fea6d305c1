import { lookUp } from './load-document.ts';
import type { Statements, WritableDatabase } from './upsert.ts';

/**
 * Validators from a server's last response for a URL. With the next request, they let the server tell us
 * whether the document has changed.
 */
export interface Validators {
  etag: string | null;
  lastModified: string | null;
}

/** The same for a page of a list. */
export interface PageValidators extends Validators {
  /** The cursor of the next page; null if this was the last one. */
  cursor: string | null;
}

/** Remembers which document was last loaded from each URL. */
export interface LoadedDocuments {
  /** False if the table was created by an earlier version, which did not store cursors. */
  keepsCursors: boolean;
  get(url: string): Promise<PageValidators | null>;
  /** Call this in the transaction that loads the document, because both must succeed or fail together. */
  put(statements: Statements, url: string, validators: Validators & Partial<PageValidators>): Promise<void>;
}

/**
 * Opens the table `feed_requests`. It is shared with other feeders and survives restarts. Without it, all
 * documents are loaded again, which does not change anything. Throws the database's errors.
 */
export async function openRequests(target: WritableDatabase): Promise<LoadedDocuments> {
  const columns = await columnsOf(target);
  if (!columns.includes('url'))
    return { keepsCursors: false, get: async () => null, put: async () => undefined };
  const kept = ['etag', 'last_modified', 'cursor'].filter((column) => columns.includes(column));
  return {
    keepsCursors: kept.includes('cursor'),
    async get(url) {
      const sql = `select ${kept.join(', ')} from feed_requests where url = $1`;
      const [row] = await lookUp(target, sql, [url]);
      if (row === undefined) return null;
      return {
        etag: textOrNull(row['etag']),
        lastModified: textOrNull(row['last_modified']),
        cursor: textOrNull(row['cursor']),
      };
    },
    async put(statements, url, { etag, lastModified, cursor = null }) {
      const values = [etag, lastModified, cursor].slice(0, kept.length);
      await statements.query(
        `insert into feed_requests (url, ${kept.join(', ')}, loaded_at)
         values ($1, ${kept.map((_, index) => `$${index + 2}`).join(', ')}, now())
         on conflict (url) do update set ${kept.map((column) => `${column} = excluded.${column}`).join(', ')},
           loaded_at = excluded.loaded_at`,
        [url, ...values],
      );
    },
  };
}

async function columnsOf(target: WritableDatabase): Promise<unknown[]> {
  const rows = await lookUp(
    target,
    "select attname::text as name from pg_attribute where attrelid = to_regclass('feed_requests') and attnum > 0 and not attisdropped",
    [],
  );
  return rows.map((row) => row['name']);
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
