/** Running writes with a limit on their number and memory. */
export interface WriteBehind {
  /**
   * Adds a call that holds `bytes` bytes of memory. Returns undefined if more calls may follow immediately.
   * Otherwise wait for the promise, which rejects with the error of the first failed call.
   */
  add(bytes: number, call: Promise<unknown>): Promise<void> | undefined;
  /** Resolves once all calls have ended. Rejects like `add`. */
  done(): Promise<void>;
}

const maxCalls = 64;
const maxBytes = 1 << 18;

/** For a single writer of many files: it waits only when the limits are reached. */
export function writeBehind(): WriteBehind {
  let pending: Promise<unknown>[] = [];
  let held = 0;
  const done = async (): Promise<void> => {
    const all = pending;
    [pending, held] = [[], 0];
    // Waits for all calls before reporting a failure.
    const failed = (await Promise.allSettled(all)).find(({ status }) => status === 'rejected');
    if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
  };
  return {
    add: (bytes, call) => {
      // `done` handles the rejection later. Without this, it would count as unhandled.
      call.catch(() => undefined);
      pending.push(call);
      held += bytes;
      return pending.length < maxCalls && held < maxBytes ? undefined : done();
    },
    done,
  };
}
