import { lookUp } from './load.ts';
import type { Statements, Target } from './target.ts';

/** What a server said of the document that was loaded last from a URL: what the next request is made with. */
export interface Validators {
  etag: string | null;
  lastModified: string | null;
}

/** The documents that were loaded, by their URL. */
export interface Requests {
  get(url: string): Promise<Validators | null>;
  /** Within the transaction that loads the document, so that neither is there without the other. */
  put(statements: Statements, url: string, validators: Validators): Promise<void>;
}

/**
 * In the table `feed_requests`, which outlives the process and is shared with other feeders. Where nobody
 * made it, nothing is remembered: every document is loaded again, which changes nothing. Throws what the
 * database throws.
 */
export async function openRequests(target: Target): Promise<Requests> {
  const [found] = await lookUp(target, "select to_regclass('feed_requests') is not null as there", []);
  if (found?.['there'] !== true) return { get: async () => null, put: async () => undefined };
  return {
    async get(url) {
      const [row] = await lookUp(target, 'select etag, last_modified from feed_requests where url = $1', [
        url,
      ]);
      if (row === undefined) return null;
      const [etag, lastModified] = [row['etag'], row['last_modified']];
      return {
        etag: typeof etag === 'string' ? etag : null,
        lastModified: typeof lastModified === 'string' ? lastModified : null,
      };
    },
    async put(statements, url, { etag, lastModified }) {
      await statements.query(
        `insert into feed_requests (url, etag, last_modified, loaded_at) values ($1, $2, $3, now())
         on conflict (url) do update set etag = excluded.etag, last_modified = excluded.last_modified,
           loaded_at = excluded.loaded_at`,
        [url, etag, lastModified],
      );
    },
  };
}
