import type { Clock, Timer } from './clock.ts';
import { onAbort } from './on-abort.ts';

/** Bytes are granted in pieces of this duration, so that progress is smooth and an abort ends a wait. */
const pieceMs = 100;
/** How much idle time, in which no transfer waits, is credited later. */
const creditMs = 100;
/**
 * How much time is credited later if transfers wait too long, so that a busy process does not reduce
 * throughput.
 */
const maxLateMs = 1000;
const minPieceBytes = 1024;

interface Waiter {
  bytes: number;
  /** The waiter with the smallest order is served first. */
  order: number;
  grant: () => void;
}

/**
 * A token bucket shared by all concurrent transfers to a destination. It starts empty, so that even a
 * transfer of a few seconds keeps the rate from its first byte.
 *
 * The oldest waiting transfer is served first. If transfers took turns, they would all end at the same time.
 * An object store receives each object once its last byte has been read, and would then receive all of them
 * simultaneously.
 */
export class RateLimiter {
  readonly #clock: Clock;
  readonly #bytesPerMs: number;
  readonly #pieceBytes: number;
  /** Waiting transfers in the order in which they are served. */
  readonly #waiting: Waiter[] = [];
  #timer: Timer | null = null;
  /** The monotonic time at which the granted bytes have passed. Never in the future. */
  #passedAt: number;
  /** The monotonic time since which no transfer has been waiting. */
  #idleSince: number;
  #transfers = 0;

  /** @param bytesPerSecond Greater than 0. */
  constructor(clock: Clock, bytesPerSecond: number) {
    this.#clock = clock;
    this.#bytesPerMs = bytesPerSecond / 1000;
    this.#pieceBytes = Math.max(minPieceBytes, Math.floor(this.#bytesPerMs * pieceMs));
    this.#passedAt = clock.monotonic();
    this.#idleSince = this.#passedAt;
  }

  /**
   * Yields the chunks in pieces at the given rate. Throws the signal's reason as soon as it aborts, and the
   * errors of `chunks`.
   */
  async *pace(chunks: AsyncIterable<Uint8Array>, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const order = ++this.#transfers;
    for await (const chunk of chunks)
      for (let at = 0; at < chunk.byteLength; at += this.#pieceBytes) {
        const piece = chunk.subarray(at, at + this.#pieceBytes);
        await this.#take(piece.byteLength, order, signal);
        yield piece;
      }
  }

  async #take(bytes: number, order: number, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const grant = (): void => {
        release?.();
        resolve();
      };
      const waiter: Waiter = { bytes, order, grant };
      const release =
        signal === undefined
          ? undefined
          : onAbort(signal, () => {
              this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
              this.#serve();
              reject(signal.reason as Error);
            });
      if (this.#waiting.length === 0) this.#endIdleTime();
      const next = this.#waiting.findIndex((other) => other.order > order);
      this.#waiting.splice(next === -1 ? this.#waiting.length : next, 0, waiter);
      this.#serve();
    });
  }

  #endIdleTime(): void {
    const now = this.#clock.monotonic();
    const lostMs = Math.max(0, now - this.#idleSince - creditMs);
    this.#passedAt = Math.max(this.#passedAt + lostMs, now - maxLateMs);
  }

  /** Serves the transfers whose bytes are due, and sets a timer for the next one. */
  #serve(): void {
    this.#timer?.cancel();
    this.#timer = null;
    const now = this.#clock.monotonic();
    for (let [first] = this.#waiting; first !== undefined; [first] = this.#waiting) {
      const due = this.#passedAt + first.bytes / this.#bytesPerMs;
      if (due > now) {
        this.#timer = this.#clock.timeout(due - now, () => this.#serve());
        return;
      }
      this.#passedAt = due;
      this.#waiting.shift();
      first.grant();
    }
    this.#idleSince = now;
  }
}
