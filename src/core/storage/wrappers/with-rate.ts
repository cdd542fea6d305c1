import type { Clock } from '../../lib/clock.ts';
import { RateLimiter } from '../../lib/rate-limiter.ts';
import type { Storage } from '../storage.ts';
import { delegate } from './delegate.ts';

/**
 * Wraps a storage so that published content is written at no more than `bytesPerSecond`, all writes taken
 * together. If a body has to be sent again, it counts again. Locks and catalogs are never delayed, because
 * leases have to be renewed in time. Reads are not limited, and neither are copies and links made by the
 * storage itself. Throws the errors of the storage.
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
