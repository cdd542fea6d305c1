import type { Clock, Timer } from './clock.ts';
import { onAbort } from './on-abort.ts';

/**
 * Bytes are released in pieces that take this long to transfer, so that progress is smooth and an abort takes
 * effect quickly.
 */
const pieceMs = 100;
/** How much unused time can be made up for later, if there was nothing to transfer. */
const creditMs = 100;
/**
 * How much time can be made up for later if transfers had to wait too long. A busy process would be slower
 * than its limit otherwise.
 */
const maxLateMs = 1000;
const minPieceBytes = 1024;

interface Waiter {
  bytes: number;
  /** The waiting transfer with the lowest number goes first. */
  order: number;
  grant: () => void;
}

/**
 * A token bucket that all transfers to a destination share. It starts out empty, so even a transfer that only
 * takes a few seconds does not exceed the rate.
 *
 * The transfer that started first always goes first. If they took turns, all of them would end at about the
 * same time. Since an object store receives nothing until an object has been read completely, it would then
 * receive all of them at once.
 */
export class RateLimiter {
  readonly #clock: Clock;
  readonly #bytesPerMs: number;
  readonly #pieceBytes: number;
  /** The transfers that are waiting, first come, first served. */
  readonly #waiting: Waiter[] = [];
  #timer: Timer | null = null;
  /** The time, on the monotonic clock, up to which bytes have been handed out. Never in the future. */
  #passedAt: number;
  /** The time, on the monotonic clock, when there was last a transfer waiting. */
  #idleSince: number;
  #transfers = 0;

  /** @param bytesPerSecond Must be greater than 0. */
  constructor(clock: Clock, bytesPerSecond: number) {
    this.#clock = clock;
    this.#bytesPerMs = bytesPerSecond / 1000;
    this.#pieceBytes = Math.max(minPieceBytes, Math.floor(this.#bytesPerMs * pieceMs));
    this.#passedAt = clock.monotonic();
    this.#idleSince = this.#passedAt;
  }

  /**
   * Yields the chunks in small pieces, no faster than the rate. Throws the signal's reason as soon as it
   * aborts, or any error from `chunks`.
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

  /** Resumes all transfers that are due, and sets a timer for the next one. */
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
