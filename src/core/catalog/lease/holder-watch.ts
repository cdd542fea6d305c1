import type { LeaseTimes } from './lease.ts';

/**
 * How a contender proceeds while another attempt holds the lease: keep waiting, take it over (`stale`), or
 * fail (`busy`).
 */
export type Verdict = 'wait' | 'stale' | 'busy';

/**
 * Returns a function that judges a lease held by another attempt. Call it at each poll with a text that
 * changes with every renewal, and the monotonic time in milliseconds.
 *
 * `stale` after `staleAfterMs` without a change. `busy` after `waitMs` in total, if any holder renewed in the
 * meantime. A holder that never renewed is waited for until it is stale: otherwise contenders would always
 * fail too early to take over from a dead host. The only side effect is the memory of earlier calls.
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
