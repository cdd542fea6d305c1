import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../lib/clock.ts';

export interface Watchdog {
  /** Starts watching, unless it does already. */
  watch(): void;
  /** Reports that an answer has arrived. */
  progressed(): void;
  /** Stops watching, because nothing is expected. */
  rest(): void;
}

/**
 * Calls `giveUp` if a watched connection makes no progress for `withinMs` milliseconds: no answer has arrived
 * and no byte has been sent. One timer serves all requests, because on a slow connection each of them waits
 * for those before it.
 */
export function watchdogOf(
  clock: Clock,
  withinMs: number,
  socket: Pick<Socket, 'bytesWritten' | 'writableLength'>,
  giveUp: () => void,
): Watchdog {
  let timer: Timer | undefined;
  let lastProgress = 0;
  let sent = 0;
  const arm = (ms: number): void => {
    timer = clock.timeout(ms, check);
  };
  const check = (): void => {
    timer = undefined;
    // The timer is not restarted at each answer, which would cost more than the answer itself.
    const idle = clock.monotonic() - lastProgress;
    const moved = socket.bytesWritten - socket.writableLength;
    if (idle < withinMs) arm(withinMs - idle);
    else if (moved === sent) giveUp();
    else {
      sent = moved;
      arm(withinMs);
    }
  };
  return {
    watch() {
      if (timer !== undefined) return;
      lastProgress = clock.monotonic();
      arm(withinMs);
    },
    progressed() {
      lastProgress = clock.monotonic();
    },
    rest() {
      timer?.cancel();
      timer = undefined;
    },
  };
}
