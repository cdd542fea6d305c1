import type { Log } from '../../lib/log.ts';
import type { SftpSession } from './session.ts';

/**
 * The number of bytes that OpenSSH allows in flight on a connection, no matter how many requests the client
 * sends.
 */
export const windowBytes = 2 << 20;
/**
 * If a round trip takes less than this, a single connection can carry more data than this machine can
 * encrypt.
 */
const minRoundTripMs = 10;
/**
 * An additional connection needs this many round trips before it carries any data: it has to connect,
 * exchange keys, log in, and open the file.
 */
const roundTripsToOpen = 12;

/**
 * Returns how many connections it makes sense to use for a file of `size` bytes. Each of them carries one
 * window per round trip. An additional connection is worth it if it carries at least as much data as the
 * first one does while the additional one is being opened.
 */
export function connectionsFor(size: number, roundTripMs: number, max: number): number {
  if (roundTripMs < minRoundTripMs) return 1;
  const roundTrips = size / windowBytes;
  return Math.max(1, Math.min(max, Math.floor(roundTrips / roundTripsToOpen)));
}

/** The parts of the first connection that additional ones depend on. */
type FirstSession = Pick<SftpSession, 'roundTripMs' | 'hostKey'>;

interface SessionPoolOptions {
  label: string;
  log: Log;
  /** The maximum number of connections, including the first. */
  maxConnections: number;
  /** Opens a connection to a server that has the same host key as `first`. `signal` cancels this. */
  connect: (first: FirstSession, signal: AbortSignal) => Promise<SftpSession>;
}

/** Additional connections to a storage's server. They speed up large files if the latency is high. */
export class SessionPool {
  readonly #options: SessionPoolOptions;
  readonly #opened: Promise<SftpSession>[] = [];
  readonly #closing = new AbortController();
  #isDisabled = false;

  constructor(options: SessionPoolOptions) {
    this.#options = options;
  }

  /**
   * Returns the additional connections that make sense for a file of `size` bytes. They are opened when they
   * are first needed, and shared by all files. If one cannot be opened, its promise rejects, but the file
   * does not fail.
   */
  additionalSessions(first: FirstSession, size: number): readonly Promise<SftpSession>[] {
    if (this.#isDisabled) return [];
    const wanted = connectionsFor(size, first.roundTripMs, this.#options.maxConnections) - 1;
    while (this.#opened.length < wanted) {
      const session = this.#options.connect(first, this.#closing.signal);
      // The server may limit how many connections a user can have.
      session.catch((error: unknown) => this.disable(error));
      this.#opened.push(session);
    }
    return this.#opened.slice(0, Math.max(0, wanted));
  }

  /** Stops using additional connections, because a file that was sent over several of them has failed. */
  disable(why: unknown): void {
    if (this.#isDisabled) return;
    this.#isDisabled = true;
    const { label, log } = this.#options;
    log.info({ storage: label, err: why }, 'large files go over one connection');
  }

  async close(): Promise<void> {
    this.#isDisabled = true;
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

/** A file that is open on one of the connections. */
export interface OpenHandle {
  readonly session: SftpSession;
  readonly handle: Buffer;
}

interface BusyLane extends OpenHandle {
  requests: number;
}

/**
 * A file that is sent over several connections. It starts with the first one, and uses additional ones as
 * soon as they are ready. Connections that fail are left out.
 */
export class SpreadFile {
  readonly #lanes: BusyLane[];
  readonly #maxRequests: number;
  readonly #active = new Set<Promise<unknown>>();
  readonly #opening = new Set<Promise<void>>();
  #isSettled = false;
  #isSpread = false;

  /**
   * `open` opens the file on an additional connection. No connection has more than `maxRequests` requests at
   * a time.
   */
  constructor(
    first: OpenHandle,
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
   * Waits until a connection has capacity, and runs `work` on the one with the fewest requests. Resolves as
   * soon as the work has started, with a promise for its result.
   */
  async begin<T>(work: (lane: OpenHandle) => Promise<T>): Promise<{ done: Promise<T> }> {
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

  /** Returns true if an additional connection has been used for this file. */
  isSpread(): boolean {
    return this.#isSpread;
  }

  /**
   * Stops adding connections and resolves with the additional ones, so that the caller can close the file
   * there. If it is called again, those are not returned a second time.
   */
  async settle(): Promise<readonly OpenHandle[]> {
    this.#isSettled = true;
    await Promise.all(this.#opening);
    return this.#lanes.splice(1);
  }

  #leastBusy(): BusyLane {
    return this.#lanes.reduce((least, lane) => (lane.requests < least.requests ? lane : least));
  }
}
