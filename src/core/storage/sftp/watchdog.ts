import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../lib/clock.ts';

/**
 * Calls `onTimeout` if a watched connection makes no progress for `timeoutMs`, with no response received and
 * no byte sent. One timer serves all requests, because on a slow connection each one waits for those before
 * it.
 */
export class Watchdog {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #socket: Pick<Socket, 'bytesWritten' | 'writableLength'>;
  readonly #onTimeout: () => void;
  #timer: Timer | undefined;
  #lastProgress = 0;
  #sent = 0;

  constructor(
    clock: Clock,
    timeoutMs: number,
    socket: Pick<Socket, 'bytesWritten' | 'writableLength'>,
    onTimeout: () => void,
  ) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#socket = socket;
    this.#onTimeout = onTimeout;
  }

  /** Starts watching if it is not already doing so. */
  watch(): void {
    if (this.#timer !== undefined) return;
    this.progressed();
    this.#arm(this.#timeoutMs);
  }

  /** Records that a response has arrived. */
  progressed(): void {
    // Restarting the timer for each response would cost more than the response itself.
    this.#lastProgress = this.#clock.monotonic();
  }

  /** Stops watching while no response is expected. */
  rest(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm(ms: number): void {
    this.#timer = this.#clock.timeout(ms, () => this.#check());
  }

  #check(): void {
    this.#timer = undefined;
    const idleMs = this.#clock.monotonic() - this.#lastProgress;
    const sent = this.#socket.bytesWritten - this.#socket.writableLength;
    if (idleMs < this.#timeoutMs) this.#arm(this.#timeoutMs - idleMs);
    else if (sent === this.#sent) this.#onTimeout();
    else {
      this.#sent = sent;
      this.#arm(this.#timeoutMs);
    }
  }
}
