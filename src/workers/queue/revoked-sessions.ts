import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';

/**
 * Remembers which console sessions were logged out and which ID tokens were already exchanged, until they
 * would have expired anyway. This is stored along with the queue, because every host accepts the same sealed
 * cookies and ID tokens, and must find out that one is no longer valid.
 */
export interface RevokedSessions {
  /** Resolves once the logout has been stored. Throws `queue_unavailable` or `insufficient_storage`. */
  add(id: string, expiresAt: Date): Promise<void>;
  /**
   * Records that an ID token was used. Returns false if it had been used before. Even across hosts that share
   * a Redis, only one call per id ever returns true. Throws `queue_unavailable`, `insufficient_storage`, or
   * `server_busy`.
   */
  addOnce(id: string, expiresAt: Date): Promise<boolean>;
  /**
   * Looks up which of the given ids have been stored, and when each of them expires. Makes a single query.
   * Throws `queue_unavailable`.
   */
  findRevoked(ids: readonly string[]): Promise<Map<string, Date>>;
  close(): void;
}

/**
 * The maximum number of entries in one process. Once it is reached, a logout drops the oldest entry, and
 * further ID tokens are rejected.
 */
const maxKept = 100_000;

interface RevokedSessionsOptions {
  clock: Pick<Clock, 'now'>;
  /** The sessions that an earlier process stored, with their expiry times. */
  restored?: Iterable<[id: string, expiresAt: Date]>;
  /** Stores a session outside this process, or deletes it if its expiry is null. Default: no-op. */
  write?: (id: string, expiresAt: Date | null) => Promise<void>;
}

/** Keeps track of ended sessions for a queue that belongs to a single process. */
export function inProcessRevokedSessions({
  clock,
  restored = [],
  write = async () => undefined,
}: RevokedSessionsOptions): RevokedSessions {
  const ends = new Map(restored);
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
    findRevoked: async (ids) => {
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
