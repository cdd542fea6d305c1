import type { DiskCallName } from '../../core/lib/disk.ts';

/** A call sent to a disk's thread. */
export interface DiskRequest {
  name: DiskCallName;
  args: readonly unknown[];
}

export interface CallResult {
  value?: unknown;
  /** The system error, converted to plain data. */
  error?: {
    message: string;
    code?: string | undefined;
    syscall?: string | undefined;
    path?: string | undefined;
  };
}

/** The results of the next calls, in order. Empty if the thread only wants to say that it is still alive. */
export type DiskResponse = readonly CallResult[];

/** The interval at which a busy thread sends answers, in milliseconds. */
export const answerIntervalMs = 1_000;
