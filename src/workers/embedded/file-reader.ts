import { readLmdb } from './lmdb-file.ts';
import { checkLmdbStructure } from './lmdb-structure.ts';

/*
 * The process that reads the file of the queue before the daemon does. LMDB maps the file into memory and
 * trusts what is there: in a damaged one it may read where nothing is, which ends the process. What only
 * writers look at, such as the list of free pages, is looked at page by page.
 */

/** What it answers: entries in portions, then why it stopped; null: it has read all. */
export type FromReader = { entries: [key: string, value: string][] } | { failure: string | null };

const portion = 500;

function answer(message: FromReader): void {
  process.send?.(message);
}

/**
 * The last message. The channel closes once it is sent, and not before: a message that came before its
 * listener is handed over by Node.js itself, which fails if the channel is gone when the listener returns.
 */
function conclude(failure: string | null): void {
  process.send?.({ failure } satisfies FromReader, () => process.disconnect());
}

process.once('message', (file) => {
  try {
    checkLmdbStructure(String(file));
    let entries: [key: string, value: string][] = [];
    for (const entry of readLmdb(String(file))) {
      entries.push(entry);
      if (entries.length < portion) continue;
      answer({ entries });
      entries = [];
    }
    answer({ entries });
    conclude(null);
  } catch (error) {
    conclude(error instanceof Error ? error.message : String(error));
  }
});
