import type { Clock } from '../../core/lib/clock.ts';

/**
 * Console sessions that were logged out of, each until it would have expired. A session is a sealed cookie
 * that any host opens, so a logout is only known where it is kept: with the queue.
 */
export interface EndedSessions {
  /** Resolves once the end is kept. Throws `queue_unavailable` or `insufficient_storage`. */
  add(id: string, expiresAt: Date): Promise<void>;
  /** Returns the ids of ended sessions, in one query. Throws `queue_unavailable`. */
  among(ids: readonly string[]): Promise<string[]>;
  close(): void;
}

/** The maximum kept in one process; then those that were added first are dropped. */
const maxKept = 100_000;

export interface EndedSessionsOptions {
  clock: Pick<Clock, 'now'>;
  /** The sessions that an earlier process has kept, with the time at which each expires. */
  left?: Iterable<[id: string, expiresAt: Date]>;
  /** Keeps one beyond this process; null forgets it. By default none is kept. */
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
