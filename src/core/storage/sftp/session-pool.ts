import type { Log } from '../../lib/log.ts';
import type { SftpSession } from './session.ts';

/** The number of bytes that OpenSSH allows in flight on a connection, whatever the client requests. */
export const windowBytes = 2 << 20;
/** Below this round trip time, one connection carries more than this machine can encrypt. */
const minRoundTripMs = 10;
/**
 * Number of round trips before a further connection takes its first byte: connect, exchange keys, log in,
 * open.
 */
const roundTripsToOpen = 12;

/**
 * The useful number of connections for a file of `size` bytes. A connection carries one window per round
 * trip. A further one must carry at least as much as the first one carries while it opens.
 */
export function connectionsFor(size: number, roundTripMs: number, max: number): number {
  if (roundTripMs < minRoundTripMs) return 1;
  const roundTrips = size / windowBytes;
  return Math.max(1, Math.min(max, Math.floor(roundTrips / roundTripsToOpen)));
}

/** The first connection, as far as further ones depend on it. */
type FirstSession = Pick<SftpSession, 'roundTripMs' | 'hostKey'>;

export interface SessionPoolOptions {
  label: string;
  log: Log;
  /** Connections in all, the first one included. */
  maxConnections: number;
  /** Connects to a server with the host key of `first`; `signal` ends that early. */
  connect: (first: FirstSession, signal: AbortSignal) => Promise<SftpSession>;
}

/** Further connections to the server of a storage, for large files over a link with high latency. */
export class SessionPool {
  readonly #options: SessionPoolOptions;
  readonly #opened: Promise<SftpSession>[] = [];
  readonly #closing = new AbortController();
  #isGivenUp = false;

  constructor(options: SessionPoolOptions) {
    this.#options = options;
  }

  /**
   * Further connections that are useful for a file of `size` bytes, in addition to `first`. They are opened
   * on first use and shared by all files. One rejects if it cannot be opened, which does not fail the file.
   */
  inAdditionTo(first: FirstSession, size: number): readonly Promise<SftpSession>[] {
    if (this.#isGivenUp) return [];
    const wanted = connectionsFor(size, first.roundTripMs, this.#options.maxConnections) - 1;
    while (this.#opened.length < wanted) {
      const session = this.#options.connect(first, this.#closing.signal);
      // A server may limit the connections of a user.
      session.catch((error: unknown) => this.disable(error));
      this.#opened.push(session);
    }
    return this.#opened.slice(0, Math.max(0, wanted));
  }

  /** A file failed that used several: from now on the first one does everything. */
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

/** A file that is open over one connection. */
export interface Lane {
  readonly session: SftpSession;
  readonly handle: Buffer;
}

interface BusyLane extends Lane {
  requests: number;
}

/**
 * One file, open over the first connection and over further ones as soon as they are open. Continues without
 * those that fail.
 */
export class SpreadFile {
  readonly #lanes: BusyLane[];
  readonly #maxRequests: number;
  readonly #active = new Set<Promise<unknown>>();
  readonly #opening = new Set<Promise<void>>();
  #isSettled = false;
  #isSpread = false;

  /** `open` opens the file over a further connection; each connection has at most `maxRequests` requests. */
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
   * when the work has started, with a promise of its end.
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

  /** Whether a further connection has carried a part. */
  isSpread(): boolean {
    return this.#isSpread;
  }

  /**
   * Adds no more connections; resolves with the further ones, each once: the caller closes the file there.
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
