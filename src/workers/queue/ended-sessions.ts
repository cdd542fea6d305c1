import type { Clock } from '../../core/lib/clock.ts';

/**
 * Console sessions that were logged out, each until its expiry. A session is a sealed cookie that every host
 * accepts, so its logout must be stored: with the queue.
 */
export interface EndedSessions {
  /** Resolves once the logout is stored. Throws `queue_unavailable` or `insufficient_storage`. */
  add(id: string, expiresAt: Date): Promise<void>;
  /** Returns the given ids whose sessions have ended, in one query. Throws `queue_unavailable`. */
  among(ids: readonly string[]): Promise<string[]>;
  close(): void;
}

/** The maximum kept in one process; beyond it the oldest entries are dropped. */
const maxKept = 100_000;

export interface EndedSessionsOptions {
  clock: Pick<Clock, 'now'>;
  /** Sessions that an earlier process has kept, with their expiry times. */
  left?: Iterable<[id: string, expiresAt: Date]>;
  /** Stores a session outside this process; null removes it. Default: no-op. */
  write?: (id: string, expiresAt: Date | null) => Promise<void>;
}

/** The ended sessions of a queue that belongs to one process. */
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
    for (const [id] of ends) if (ends.size >= maxKept) forget(id);
  };
  return {
    add: async (id, expiresAt) => {
      tidy();
      ends.set(id, expiresAt);
      await write(id, expiresAt);
    },
    among: async (ids) => ids.filter((id) => ends.has(id)),
    close: () => undefined,
  };
}
