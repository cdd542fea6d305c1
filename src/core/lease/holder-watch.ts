import type { LeaseTimes } from './lease.ts';

/**
 * What a contender does about a lease that another attempt holds: wait on, take it over (`stale`), or give up
 * (`busy`).
 */
export type Verdict = 'wait' | 'stale' | 'busy';

/**
 * Watches a lease that another attempt holds. The returned function is given, at each look, a text that
 * changes with every renewal, and the monotonic time in milliseconds.
 *
 * `stale` after `staleAfterMs` without a change; `busy` after `waitMs` in all if the holder, or one after it,
 * showed life meanwhile. A holder that showed none is waited for until it is stale: if contenders gave up
 * earlier, nobody would ever take over from a dead host. Pure, apart from what it remembers.
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
