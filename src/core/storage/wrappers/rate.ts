import type { Clock } from '../../lib/clock.ts';
import { RateLimiter } from '../../lib/rate-limiter.ts';
import type { Storage } from '../storage.ts';
import { delegate } from './delegate.ts';

/**
 * Wraps a storage so that all its writes of published content together send at most `bytesPerSecond`. A body
 * that is sent again counts again. Locks and catalogs never wait, so that leases are renewed in time. Reads
 * are not limited, nor are copies and links that the storage itself makes. Throws the errors of the storage.
 */
export function withRate(storage: Storage, clock: Clock, bytesPerSecond: number): Storage {
  const limiter = new RateLimiter(clock, bytesPerSecond);
  return delegate(storage, {
    write: (key, body, options) => {
      if (options.isContent !== true) return storage.write(key, body, options);
      const paced = { size: body.size, open: () => limiter.pace(body.open(), options.signal) };
      return storage.write(key, paced, options);
    },
  });
}
