import type { ChangePage, ChangeQuery } from './run-changes.ts';

/**
 * One reader's view of the changes of all runs. A reader keeps a cursor and nothing else: it asks for what
 * changed after it, and goes on from the cursor of the answer. Cursors hold across readers, connections and,
 * where the queue is shared, hosts.
 */
export interface RunWatch {
  /** Where a reader stands who has seen everything until now. */
  cursor: () => Promise<string>;
  /**
   * What changed after the cursor. Null if that cannot be told without a gap: the cursor is no cursor of this
   * queue, or a run whose change it does not cover has been forgotten. Whoever gets null begins anew, with
   * `cursor` and then the records as they are.
   */
  after(cursor: string, query: ChangeQuery): Promise<ChangePage | null>;
  /** `onChange` is not called again. */
  close(): void;
}
