import * as calls from './disk-calls.ts';

type DiskCalls = typeof calls;
export type DiskCallName = keyof DiskCalls;

/** The arguments that are sent to the thread that makes the call. */
type DiskArguments<Name extends DiskCallName> = Name extends 'remove'
  ? [name: string]
  : Parameters<DiskCalls[Name]>;

/**
 * Asynchronous access to the staging directory. Calls run one after another in request order, so a caller
 * that needs no result can request the next call without waiting. Each call throws system errors.
 */
export type Disk = {
  [Name in DiskCallName]: (...args: DiskArguments<Name>) => Promise<ReturnType<DiskCalls[Name]>>;
};

const diskCallNames = Object.keys(calls) as DiskCallName[];

/** Returns a disk whose calls are made by `call`. */
export function diskOf(call: (name: DiskCallName, args: readonly unknown[]) => Promise<unknown>): Disk {
  const entries = diskCallNames.map((name): [string, unknown] => [
    name,
    (...args: unknown[]) => call(name, args),
  ]);
  return Object.fromEntries(entries) as unknown as Disk;
}

/** Calls the disk directly and blocks. Only for code that owns its thread. */
export const waitingDisk: Disk = diskOf(async (name, args) =>
  (calls[name] as (...args: readonly unknown[]) => unknown)(...args),
);

/** Limits the number and the memory of pending writes. */
export interface WriteBehind {
  /**
   * Adds a call that uses `bytes` bytes of memory. Returns undefined if more calls may follow immediately.
   * Otherwise, await the returned promise, which throws the error of the first failed call.
   */
  add(bytes: number, call: Promise<unknown>): Promise<void> | undefined;
  /** Resolves once all calls have ended. Throws the same error as `add`. */
  done(): Promise<void>;
}

const maxCalls = 64;
const maxBytes = 1 << 18;

/** Returns a limiter for a single writer of many files, which waits only when the limits are reached. */
export function writeBehind(): WriteBehind {
  let pending: Promise<unknown>[] = [];
  let held = 0;
  const done = async (): Promise<void> => {
    const all = pending;
    [pending, held] = [[], 0];
    // Wait for all calls before reporting a failure.
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
