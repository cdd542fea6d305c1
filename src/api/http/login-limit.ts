import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { networkOf } from './request/shares.ts';

/**
 * Limits failed logins. A client that fails too often is refused. When many clients fail, logins only slow
 * down, so attackers cannot lock out a valid token.
 */
export interface LoginLimit {
  /**
   * Resolves when this attempt's token may be compared. Waits `slowdownMs` while too many clients fail.
   * Throws `too_many_logins`, with the time of the next attempt, if this client has failed too often.
   */
  admit(client: string | null): Promise<void>;
  /** Counts a failed attempt. */
  failed(client: string | null): Promise<void>;
}

interface LoginBounds {
  /** The maximum number of failures per window for one client or one IPv6 /64 network. */
  perClient: number;
  /** The maximum number of failures per window for all clients. */
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
          // Above its limit, the counter rejects with its state.
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
