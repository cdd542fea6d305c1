import type { Log } from '../../lib/log.ts';
import type { SftpSession } from './session.ts';

/** What OpenSSH lets a connection have in flight, in bytes, whatever the client asks for. */
export const windowBytes = 2 << 20;
/** Below, a connection carries more in a round trip than this machine can encrypt meanwhile. */
const leastRoundTripMs = 10;
/** Round trips until a further connection takes its first byte: to connect, exchange keys, log in, open. */
const roundTripsToOpen = 12;

/**
 * How many connections one file of `size` bytes is worth. One carries a window for each round trip; a further
 * one has to carry at least as many as it takes to open it.
 */
export function connectionsFor(size: number, roundTripMs: number, most: number): number {
  if (roundTripMs < leastRoundTripMs) return 1;
  const roundTrips = size / windowBytes;
  return Math.max(1, Math.min(most, Math.floor(roundTrips / roundTripsToOpen)));
}

/** Connections to the same server beside the first one of a storage, for large files on a long line. */
export interface FurtherSessions {
  /**
   * Those that a file of `size` bytes is worth beside `first`, opened when they are wanted for the first time
   * and used by all files. One rejects if it cannot be had, which is no failure of the file.
   */
  beside(first: SftpSession, size: number): readonly Promise<SftpSession>[];
  /** A file failed that went over several: from now on the first one does everything. */
  giveUp(why: unknown): void;
  close(): Promise<void>;
}

export interface FurtherSessionsOptions {
  label: string;
  log: Log;
  /** Connections in all, the first one included. */
  most: number;
  /** Connects to a server with the host key of `first`; `signal` ends that early. */
  connect: (first: SftpSession, signal: AbortSignal) => Promise<SftpSession>;
}

export function furtherSessions({ label, log, most, connect }: FurtherSessionsOptions): FurtherSessions {
  const opened: Promise<SftpSession>[] = [];
  const closing = new AbortController();
  let isGivenUp = false;

  const giveUp = (why: unknown): void => {
    if (isGivenUp) return;
    isGivenUp = true;
    log.info({ storage: label, err: why }, 'large files go over one connection');
  };
  const open = (first: SftpSession): Promise<SftpSession> => {
    const session = connect(first, closing.signal);
    // A server may allow a user one connection only, or so many at a time.
    session.catch(giveUp);
    return session;
  };
  return {
    beside(first, size) {
      if (isGivenUp) return [];
      const wanted = connectionsFor(size, first.roundTripMs, most) - 1;
      while (opened.length < wanted) opened.push(open(first));
      return opened.slice(0, Math.max(0, wanted));
    },
    giveUp,
    async close() {
      isGivenUp = true;
      closing.abort();
      await Promise.all(
        opened.map((session) =>
          session.then(
            (each) => each.close(),
            () => undefined,
          ),
        ),
      );
    },
  };
}
