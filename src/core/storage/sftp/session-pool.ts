import type { Log } from '../../lib/log.ts';
import type { SftpSession } from './session.ts';

/**
 * The number of bytes that OpenSSH allows in flight on a connection, regardless of what the client requests.
 */
export const windowBytes = 2 << 20;
/** Below this round-trip time, one connection carries more data than this machine can encrypt. */
const minRoundTripMs = 10;
/**
 * Number of round trips before an additional connection carries its first byte: connecting, exchanging keys,
 * logging in and opening the file.
 */
const roundTripsToOpen = 12;

/**
 * Returns the useful number of connections for a file of `size` bytes. A connection carries one window per
 * round trip. An additional one is useful if it carries at least as much as the first one carries while it
 * opens.
 */
export function connectionsFor(size: number, roundTripMs: number, max: number): number {
  if (roundTripMs < minRoundTripMs) return 1;
  const roundTrips = size / windowBytes;
  return Math.max(1, Math.min(max, Math.floor(roundTrips / roundTripsToOpen)));
}

/** The members of the first connection on which additional ones depend. */
type FirstSession = Pick<SftpSession, 'roundTripMs' | 'hostKey'>;

export interface SessionPoolOptions {
  label: string;
  log: Log;
  /** The maximum number of connections, including the first one. */
  maxConnections: number;
  /** Connects to a server that has the host key of `first`. `signal` cancels the attempt. */
  connect: (first: FirstSession, signal: AbortSignal) => Promise<SftpSession>;
}

/** Additional connections to a storage's server, for large files over a high-latency link. */
export class SessionPool {
  readonly #options: SessionPoolOptions;
  readonly #opened: Promise<SftpSession>[] = [];
  readonly #closing = new AbortController();
  #isGivenUp = false;

  constructor(options: SessionPoolOptions) {
    this.#options = options;
  }

  /**
   * Returns the additional connections that are useful for a file of `size` bytes. They are opened on first
   * use and shared by all files. A connection that cannot be opened rejects, but the file does not fail.
   */
  inAdditionTo(first: FirstSession, size: number): readonly Promise<SftpSession>[] {
    if (this.#isGivenUp) return [];
    const wanted = connectionsFor(size, first.roundTripMs, this.#options.maxConnections) - 1;
    while (this.#opened.length < wanted) {
      const session = this.#options.connect(first, this.#closing.signal);
      // A server may limit the number of connections per user.
      session.catch((error: unknown) => this.disable(error));
      this.#opened.push(session);
    }
    return this.#opened.slice(0, Math.max(0, wanted));
  }

  /** Stops using additional connections, because a file that used several has failed. */
  disable(why: unknown): void {
    if (this.#isGivenUp) return;
    this.#isGivenUp = true;
    const { label, log } = this.#options;
    log.info({ storage: label, err: why }, 'large files go over one connection');
  }

  async close(): Promise<void> {
    this.#isGivenUp = true;
    this.#closing.abort();
    await Promise.all(
      this.#opened.map((session) =>
        session.then(
          (each) => each.close(),
          () => undefined,
        ),
      ),
    );
  }
}

/** A file that is open on one connection. */
export interface Lane {
  readonly session: SftpSession;
  readonly handle: Buffer;
}

interface BusyLane extends Lane {
  requests: number;
}

/**
 * One file, open on the first connection and on each additional one as soon as it is open. Continues without
 * connections that fail.
 */
export class SpreadFile {
  readonly #lanes: BusyLane[];
  readonly #maxRequests: number;
  readonly #active = new Set<Promise<unknown>>();
  readonly #opening = new Set<Promise<void>>();
  #isSettled = false;
  #isSpread = false;

  /**
   * `open` opens the file on an additional connection. Each connection has at most `maxRequests` requests.
   */
  constructor(
    first: Lane,
    sessions: readonly Promise<SftpSession>[],
    open: (session: SftpSession) => Promise<Buffer>,
    maxRequests: number,
  ) {
    this.#lanes = [{ ...first, requests: 0 }];
    this.#maxRequests = maxRequests;
    const join = async (session: SftpSession): Promise<void> => {
      this.#lanes.push({ session, handle: await open(session), requests: 0 });
      this.#isSpread = true;
    };
    for (const each of sessions)
      each.then(
        (session) => {
          if (this.#isSettled || session.isClosed()) return;
          const joined: Promise<void> = join(session)
            .catch(() => undefined)
            .finally(() => this.#opening.delete(joined));
          this.#opening.add(joined);
        },
        () => undefined,
      );
  }

  /**
   * Runs `work` on the connection with the fewest requests, once one has fewer than the maximum. Resolves
   * when the work has started, with a promise for its completion.
   */
  async begin<T>(work: (lane: Lane) => Promise<T>): Promise<{ done: Promise<T> }> {
    let lane = this.#leastBusy();
    while (lane.requests >= this.#maxRequests) {
      await Promise.race(this.#active);
      lane = this.#leastBusy();
    }
    const used = lane;
    used.requests += 1;
    const done = work(used);
    const end = (): void => {
      used.requests -= 1;
      this.#active.delete(ended);
    };
    const ended = done.then(end, end);
    this.#active.add(ended);
    return { done };
  }

  /** Returns true if an additional connection has carried a part of the file. */
  isSpread(): boolean {
    return this.#isSpread;
  }

  /**
   * Stops adding connections, and resolves with the additional ones. Each is returned only once, and the
   * caller closes the file on it.
   */
  async settle(): Promise<readonly Lane[]> {
    this.#isSettled = true;
    await Promise.all(this.#opening);
    return this.#lanes.splice(1);
  }

  #leastBusy(): BusyLane {
    return this.#lanes.reduce((least, lane) => (lane.requests < least.requests ? lane : least));
  }
}
