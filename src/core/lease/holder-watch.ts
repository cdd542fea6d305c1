import type { LeaseTimes } from './lease.ts';

/** What a contender makes of a lease that another holds. */
export type Verdict = 'wait' | 'stale' | 'busy';

/**
 * Watches a lease that another holds, by whatever text changes with each renewal. `stale` after
 * `staleAfterMs` without a change as seen here; `busy` after `waitMs` in all, if the holder (or one after it)
 * showed life meanwhile. A holder that showed none is waited for until it is stale: giving up before that
 * would let every contender give up, and nobody would ever take over from a dead host.
 */
export function watchLease(times: LeaseTimes, startedMs: number): (text: string, nowMs: number) => Verdict {
  let last: string | undefined;
  let changedMs = startedMs;
  let sawLife = false;
  return (text, nowMs) => {
    if (text !== last) {
      sawLife ||= last !== undefined;
      last = text;
      changedMs = nowMs;
    }
    if (nowMs - changedMs >= times.staleAfterMs) return 'stale';
    return sawLife && nowMs - startedMs >= times.waitMs ? 'busy' : 'wait';
  };
}
