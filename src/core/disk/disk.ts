import * as calls from './disk-calls.ts';

export type DiskCalls = typeof calls;
export type DiskCallName = keyof DiskCalls;

/** The arguments that are sent to the thread that makes the call. */
export type DiskArguments<Name extends DiskCallName> = Name extends 'remove'
  ? [name: string]
  : Parameters<DiskCalls[Name]>;

/**
 * Asynchronous access to the staging directory. Calls run one after another in the order of the requests, so
 * a caller that needs no result can request the next call without waiting. Each rejects with the system's
 * error.
 */
export type Disk = {
  [Name in DiskCallName]: (...args: DiskArguments<Name>) => Promise<ReturnType<DiskCalls[Name]>>;
};

export const diskCallNames = Object.keys(calls) as DiskCallName[];

/** A disk whose calls are made by `call`. */
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
