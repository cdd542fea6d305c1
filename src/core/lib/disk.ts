import * as calls from './disk-calls.ts';

type DiskCalls = typeof calls;
export type DiskCallName = keyof DiskCalls;

/** The arguments of a call, as sent to the thread that runs it. */
type DiskArguments<Name extends DiskCallName> = Name extends 'remove'
  ? [name: string]
  : Parameters<DiskCalls[Name]>;

/**
 * Asynchronous access to the staging directory. Calls run one at a time, in the order they are made, so if
 * you do not need the result of a call, you can make the next one without waiting. Calls throw system errors.
 */
export type Disk = {
  [Name in DiskCallName]: (...args: DiskArguments<Name>) => Promise<ReturnType<DiskCalls[Name]>>;
};

const diskCallNames = Object.keys(calls) as DiskCallName[];

/** Returns a disk that passes its calls to `call`. */
export function diskOf(call: (name: DiskCallName, args: readonly unknown[]) => Promise<unknown>): Disk {
  const entries = diskCallNames.map((name): [string, unknown] => [
    name,
    (...args: unknown[]) => call(name, args),
  ]);
  return Object.fromEntries(entries) as unknown as Disk;
}

/** Runs each call right here and blocks. Only for code that has its own thread. */
export const blockingDisk: Disk = diskOf(async (name, args) =>
  (calls[name] as (...args: readonly unknown[]) => unknown)(...args),
);

/** Limits how many writes can be pending, and how much memory they use. */
export interface WriteBehind {
  /**
   * Adds a call that uses `bytes` bytes of memory. Returns undefined as long as more calls can follow right
   * away. If it returns a promise, wait for it. It throws the error of the first call that failed.
   */
  add(bytes: number, call: Promise<unknown>): Promise<void> | undefined;
  /** Waits for all calls. Throws the same error as `add`. */
  done(): Promise<void>;
}

const maxCalls = 64;
const maxBytes = 1 << 18;

/** Returns a limiter for a writer with many files, which then waits only if a limit is reached. */
export function writeBehind(): WriteBehind {
  let pending: Promise<unknown>[] = [];
  let pendingBytes = 0;
  const done = async (): Promise<void> => {
    const all = pending;
    [pending, pendingBytes] = [[], 0];
    // Let all calls finish before throwing.
    const failed = (await Promise.allSettled(all)).find(({ status }) => status === 'rejected');
    if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
  };
  return {
    add: (bytes, call) => {
      // `done` deals with the error later. Without this, Node.js would report it as unhandled.
      call.catch(() => undefined);
      pending.push(call);
      pendingBytes += bytes;
      return pending.length < maxCalls && pendingBytes < maxBytes ? undefined : done();
    },
    done,
  };
}
