import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';

/**
 * Console sessions that were logged out and ID tokens that were exchanged, each kept until it expires. Every
 * host accepts sealed cookies and ID tokens, so the end of one must be stored with the queue.
 */
export interface EndedSessions {
  /** Resolves once the logout is stored. Throws `queue_unavailable` or `insufficient_storage`. */
  add(id: string, expiresAt: Date): Promise<void>;
  /**
   * Stores the use of an ID token. Returns false if it was already stored. Only one
   * call per id returns true, even across hosts that share a Redis. Throws `queue_unavailable`,
   * `insufficient_storage` or `server_busy`.
   */
  addOnce(id: string, expiresAt: Date): Promise<boolean>;
  /**
   * Returns the stored ids among the given ones, each with its expiry, in one query. Throws
   * `queue_unavailable`.
   */
  among(ids: readonly string[]): Promise<Map<string, Date>>;
  close(): void;
}

/**
 * Maximum number of entries kept in one process. Beyond it, a logout drops the oldest entry, and ID tokens
 * are refused.
 */
const maxKept = 100_000;

export interface EndedSessionsOptions {
  clock: Pick<Clock, 'now'>;
  /** Sessions that an earlier process stored, with their expiry times. */
  left?: Iterable<[id: string, expiresAt: Date]>;
  /** Stores a session outside this process. A null expiry removes it. Default: no-op. */
  write?: (id: string, expiresAt: Date | null) => Promise<void>;
}

/** Creates the store of ended sessions for a queue that belongs to one process. */
export function endedSessionsBook({
  clock,
  left = [],
  write = async () => undefined,
}: EndedSessionsOptions): EndedSessions {
  const ends = new Map(left);
  const forget = (id: string): void => {
    ends.delete(id);
    void write(id, null);
  };
  const tidy = (): void => {
    for (const [id, end] of ends) if (end <= clock.now()) forget(id);
  };
  return {
    add: async (id, expiresAt) => {
      tidy();
      for (const [oldest] of ends) if (ends.size >= maxKept) forget(oldest);
      ends.set(id, expiresAt);
      await write(id, expiresAt);
    },
    addOnce: async (id, expiresAt) => {
      tidy();
      if (ends.has(id)) return false;
      if (ends.size >= maxKept) throw full();
      ends.set(id, expiresAt);
      await write(id, expiresAt);
      return true;
    },
    among: async (ids) => {
      const found = new Map<string, Date>();
      for (const id of ids) {
        const end = ends.get(id);
        if (end !== undefined) found.set(id, end);
      }
      return found;
    },
    close: () => undefined,
  };
}

function full(): WaybillError {
  return new WaybillError('server_busy', `${maxKept} ID tokens were exchanged and have not expired`, {
    hint: 'try again later',
  });
}
