import type { DiskCallName } from '../../core/lib/disk.ts';

/** A call sent to a disk's thread. */
export interface DiskRequest {
  name: DiskCallName;
  args: readonly unknown[];
}

/** The outcome of one call. */
export interface Outcome {
  value?: unknown;
  /** The system error as plain data. */
  error?: {
    message: string;
    code?: string | undefined;
    syscall?: string | undefined;
    path?: string | undefined;
  };
}

/** The outcomes of the next calls, in order. Empty if the thread only reports progress. */
export type Answer = readonly Outcome[];

/** How often a busy thread reports, in milliseconds. */
export const answerEveryMs = 1_000;
