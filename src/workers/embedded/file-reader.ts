import { readLmdb } from './lmdb-file.ts';
import { checkLmdbStructure } from './lmdb-structure.ts';

/*
 * Reads the queue's file in a child process before the daemon does. LMDB maps the file into memory and trusts
 * it, so a damaged file can crash the process. Parts that only writers read, such as the free-page list, are
 * checked page by page.
 */

/** Messages from the reader: batches of entries, followed by the failure, or null if every entry was read. */
export type ReaderMessage = { entries: [key: string, value: string][] } | { failure: string | null };

const portion = 500;

function answer(message: ReaderMessage): void {
  process.send?.(message);
}

/**
 * Sends the last message and then closes the channel. Node.js queues a message that arrives before its
 * listener, but throws if the channel is already closed.
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
    conclude(error instanceof Error ? error.message : String(error));
  }
});
