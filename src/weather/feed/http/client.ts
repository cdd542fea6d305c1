import type { Clock } from '../../../core/lib/clock.ts';
import { createSemaphore } from '../../../core/lib/parallel.ts';
import type { Validators } from '../tables/requests.ts';
import { request, RequestFailed, type Answer, type RequestOptions } from './request.ts';

export interface ClientOptions extends RequestOptions {
  concurrency: number;
  /** A number in [0, 1); only tests pass their own. */
  random?: () => number;
}

/** Asks for a document, with patience. Throws `RequestFailed` when it ran out, and the signal's reason. */
export type Get = (url: string, known: Validators | null) => Promise<Answer>;

const tries = 4;
const firstPauseMs = 1000;
const longestPauseMs = 60_000;
/** A server that wants to be left alone for longer is left alone by the next round too. */
const longestWaitMs = 5 * 60_000;

/**
 * Requests to one service, so many at once. One that fails for now is tried again after a pause that doubles,
 * with full jitter; where the server says how long (`Retry-After`), everything waits for so long, since it
 * speaks of the client and not of the document.
 */
export function createClient(options: ClientOptions): Get {
  const { clock, concurrency, signal, random = Math.random } = options;
  const permits = createSemaphore(concurrency);
  const pause = sharedPause(clock);
  return async (url, known) => {
    const release = await permits.acquire(1, signal);
    try {
      for (let attempt = 1; ; attempt += 1) {
        await pause.wait(signal);
        try {
          return await request(url, known, options);
        } catch (error) {
          if (!(error instanceof RequestFailed) || !error.retry) throw error;
          const { retryAfterMs } = error;
          if (retryAfterMs !== undefined) pause.extend(Math.min(retryAfterMs, longestWaitMs));
          if (attempt === tries || (retryAfterMs ?? 0) > longestWaitMs) throw error;
          if (retryAfterMs === undefined)
            await clock.sleep(
              Math.floor(random() * Math.min(longestPauseMs, firstPauseMs * 2 ** (attempt - 1))),
              signal,
            );
        }
      }
    } finally {
      release();
    }
  };
}

/** Until when nobody asks. */
function sharedPause(clock: Clock): { extend(ms: number): void; wait(signal?: AbortSignal): Promise<void> } {
  let until = 0;
  return {
    extend(ms) {
      until = Math.max(until, clock.monotonic() + ms);
    },
    async wait(signal) {
      for (let ms = until - clock.monotonic(); ms > 0; ms = until - clock.monotonic())
        await clock.sleep(Math.ceil(ms), signal);
    },
  };
}
