import * as calls from './disk-calls.ts';

export type DiskCalls = typeof calls;
export type DiskCallName = keyof DiskCalls;

/** The arguments of a call that go to wherever it is made. */
export type DiskArguments<Name extends DiskCallName> = Name extends 'remove'
  ? [name: string]
  : Parameters<DiskCalls[Name]>;

/**
 * The disk of staging. Calls are made one after the other, in the order in which they were asked for, so that
 * whoever needs no result need not wait for it before asking for the next. Each rejects with the system's
 * error.
 */
export type Disk = {
  [Name in DiskCallName]: (...args: DiskArguments<Name>) => Promise<ReturnType<DiskCalls[Name]>>;
};

export const diskCallNames = Object.keys(calls) as DiskCallName[];

/** A disk whose calls are made by `ask`. */
export function diskOf(ask: (name: DiskCallName, args: readonly unknown[]) => Promise<unknown>): Disk {
  const entries = diskCallNames.map((name): [string, unknown] => [
    name,
    (...args: unknown[]) => ask(name, args),
  ]);
  return Object.fromEntries(entries) as unknown as Disk;
}

/** Makes each call at once, and waits for the disk: for whoever nobody else waits for. */
export const waitingDisk: Disk = diskOf(async (name, args) =>
  (calls[name] as (...args: readonly unknown[]) => unknown)(...args),
);
