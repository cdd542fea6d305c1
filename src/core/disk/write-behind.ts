/** Calls that are under way, with a bound on the memory that they hold. */
export interface WriteBehind {
  /**
   * Takes a call that holds so many bytes. Undefined if more may follow at once; else to be waited for.
   * Rejects with what the first call that failed did.
   */
  add(bytes: number, call: Promise<unknown>): Promise<void> | undefined;
  /** Resolves once all of them have ended; rejects then as `add`. */
  done(): Promise<void>;
}

const mostCalls = 64;
const mostBytes = 1 << 18;

/** For one writer of many files: nothing is waited for as long as little is under way. */
export function writeBehind(): WriteBehind {
  let pending: Promise<unknown>[] = [];
  let held = 0;
  const done = async (): Promise<void> => {
    const all = pending;
    [pending, held] = [[], 0];
    // Nothing is left under way when a failure is told.
    const failed = (await Promise.allSettled(all)).find(({ status }) => status === 'rejected');
    if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
  };
  return {
    add: (bytes, call) => {
      // It is looked at later, and is no rejection that nobody handles.
      call.catch(() => undefined);
      pending.push(call);
      held += bytes;
      return pending.length < mostCalls && held < mostBytes ? undefined : done();
    },
    done,
  };
}
