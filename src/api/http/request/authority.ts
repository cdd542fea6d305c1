import type { IncomingMessage } from 'node:http';
import type { Clock, Timer } from '../../../core/lib/clock.ts';
import { requestContext } from './request-context.ts';

/*
 * A reload, an expiry or a logout also ends what has begun before it: bodies, streams and waits. Each request
 * keeps the check that admitted it, and the check is repeated while the request takes time.
 */

/** The longest time for which a token that is gone can go on with what it has begun. */
export const recheckMs = 1_000;

/**
 * Returns what `authorize` returns, and repeats it later to see whether the request is still allowed.
 * `authorize` has to read the current configuration each time. Throws what `authorize` throws.
 */
export function keepAuthorized<T>(req: IncomingMessage, authorize: () => T): T {
  const admitted = authorize();
  requestContext(req).authorize = authorize;
  return admitted;
}

/** Throws what a new request like this one would be refused with. Does nothing for an anonymous request. */
export function requireAuthorized(req: IncomingMessage): void {
  requestContext(req).authorize?.();
}

/** Calls `end` with the refusal soon after the request is no longer allowed. The timer is to be cancelled. */
export function watchAuthority(
  req: IncomingMessage,
  clock: Pick<Clock, 'every'>,
  end: (refusal: unknown) => void,
): Timer {
  const timer = clock.every(recheckMs, () => {
    try {
      requireAuthorized(req);
    } catch (refusal) {
      timer.cancel();
      end(refusal);
    }
  });
  return timer;
}
