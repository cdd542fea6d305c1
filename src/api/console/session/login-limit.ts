import { isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { WaybillError } from '../../../core/errors.ts';

/**
 * Bounds attempts to log in that fail: of one client, so that nobody can guess, and of all together, so that
 * nobody can with many addresses either.
 */
export interface LoginLimit {
  /** Throws `too_many_logins`, with the time after which to try again, before a token is even looked at. */
  check(client: string | null): Promise<void>;
  /** Counts an attempt that has failed. */
  failed(client: string | null): Promise<void>;
}

export interface LoginBounds {
  perClient: number;
  inAll: number;
  windowSeconds: number;
}

export const loginBounds: LoginBounds = { perClient: 10, inAll: 300, windowSeconds: 300 };

export function createLoginLimit({ perClient, inAll, windowSeconds }: LoginBounds = loginBounds): LoginLimit {
  const ofClient = new RateLimiterMemory({ points: perClient, duration: windowSeconds });
  const ofAll = new RateLimiterMemory({ points: inAll, duration: windowSeconds });
  const counters = (client: string | null): [RateLimiterMemory, string][] => [
    [ofAll, 'all'],
    [ofClient, networkOf(client)],
  ];
  return {
    check: async (client) => {
      for (const [limiter, key] of counters(client)) {
        const known = await limiter.get(key);
        if (known !== null && known.remainingPoints <= 0) throw tooMany(known.msBeforeNext);
      }
    },
    failed: async (client) => {
      for (const [limiter, key] of counters(client))
        await limiter.consume(key).catch((refused: unknown) => {
          // Beyond the limit it counts on, and rejects with how it stands.
          if (!(refused instanceof RateLimiterRes)) throw refused;
        });
    },
  };
}

/** Whoever has one address of IPv6 has the other 2^64 of its network, too. */
function networkOf(client: string | null): string {
  if (client === null || !isIPv6(client)) return client ?? 'unknown';
  const address = ipaddr.IPv6.parse(client);
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().toString();
  return address.toNormalizedString().split(':').slice(0, 4).join(':');
}

function tooMany(ms: number): WaybillError {
  const seconds = Math.max(1, Math.ceil(ms / 1000));
  return new WaybillError('too_many_logins', 'too many attempts to log in have failed', {
    hint: `try again in ${seconds} s, with the token as the daemon was given it`,
    retryAfterSeconds: seconds,
  });
}
