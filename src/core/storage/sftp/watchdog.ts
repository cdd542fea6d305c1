import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../lib/clock.ts';

/**
 * Calls `onTimeout` if a connection makes no progress for `timeoutMs`, which means that no response has
 * arrived and nothing could be sent. There is a single timer for all requests, because on a slow connection,
 * a request has to wait for the ones before it.
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

  /** Starts watching, if that is not already happening. */
  watch(): void {
    if (this.#timer !== undefined) return;
    this.progressed();
    this.#arm(this.#timeoutMs);
  }

  /** Called when a response has arrived. */
  progressed(): void {
    // Restarting the timer every time would take longer than handling the response.
    this.#lastProgress = this.#clock.monotonic();
  }

  /** Stops watching, because no response is expected. */
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
