import { errorMessage } from '../../core/lib/errors.ts';
import { readLmdb } from './lmdb-file.ts';
import { checkLmdbStructure } from './lmdb-structure.ts';

/*
 * Reads the queue's file in a child process before the daemon opens it. LMDB maps the file into memory and
 * trusts its contents, so a corrupted file can crash the process. Parts that are never read while reading
 * entries, such as the list of free pages, are checked page by page.
 */

/**
 * The messages from the child process: batches of entries, and then the error, or null if it has read
 * everything.
 */
export type ReaderMessage = { entries: [key: string, value: string][] } | { failure: string | null };

const portion = 500;

function answer(message: ReaderMessage): void {
  process.send?.(message);
}

/**
 * Sends the last message and closes the channel. The parent may not be listening yet, in which case Node.js
 * queues the message. Closing the channel too early would make sending throw.
 */
function conclude(failure: string | null): void {
  process.send?.({ failure } satisfies ReaderMessage, () => process.disconnect());
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
    conclude(errorMessage(error));
  }
});
