import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { networkOf } from './request/shares.ts';

/**
 * Limits failed logins. A client with too many failures is rejected. If there are too many failures overall,
 * logins only become slower, so that an attacker cannot lock out people with a valid token.
 */
export interface LoginLimit {
  /**
   * Call this before comparing a token. Waits `slowdownMs` if there are too many failures overall. Throws
   * `too_many_logins`, with the time of the next possible attempt, if this client has failed too often.
   */
  admit(client: string | null): Promise<void>;
  /** Counts a failed login. */
  failed(client: string | null): Promise<void>;
}

interface LoginBounds {
  /**
   * The number of failures that a client may have per window. IPv6 clients in the same /64 network count as
   * one.
   */
  perClient: number;
  /** The number of failures that all clients together may have per window. */
  total: number;
  windowSeconds: number;
  slowdownMs: number;
}

const loginBounds: LoginBounds = { perClient: 10, total: 300, windowSeconds: 300, slowdownMs: 2_000 };

export function createLoginLimit(
  { sleep }: Pick<Clock, 'sleep'>,
  { perClient, total, windowSeconds, slowdownMs }: LoginBounds = loginBounds,
): LoginLimit {
  const clients = new RateLimiterMemory({ points: perClient, duration: windowSeconds });
  const everyone = new RateLimiterMemory({ points: total, duration: windowSeconds });
  const counters = (client: string | null): [RateLimiterMemory, string][] => [
    [everyone, 'all'],
    [clients, networkOf(client)],
  ];
  return {
    admit: async (client) => {
      const ofClient = await clients.get(networkOf(client));
      if (ofClient !== null && ofClient.remainingPoints <= 0) throw tooMany(ofClient.msBeforeNext);
      const ofAll = await everyone.get('all');
      if (ofAll !== null && ofAll.remainingPoints <= 0) await sleep(slowdownMs);
    },
    failed: async (client) => {
      for (const [limiter, key] of counters(client))
        await limiter.consume(key).catch((refused: unknown) => {
          // The limiter rejects with its state if the limit is reached, and with an Error for anything else.
          if (!(refused instanceof RateLimiterRes)) throw refused;
        });
    },
  };
}

function tooMany(ms: number): WaybillError {
  const seconds = Math.max(1, Math.ceil(ms / 1000));
  return new WaybillError('too_many_logins', 'too many attempts to log in have failed', {
    hint: `try again in ${seconds} s`,
    retryAfterSeconds: seconds,
  });
}
