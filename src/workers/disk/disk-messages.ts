import type { DiskCallName } from '../../core/lib/disk.ts';

/** A call to the thread of a disk. */
export interface DiskRequest {
  name: DiskCallName;
  args: readonly unknown[];
}

/** The outcome of one call. */
export interface Outcome {
  value?: unknown;
  /** The system's error, as plain data. */
  error?: {
    message: string;
    code?: string | undefined;
    syscall?: string | undefined;
    path?: string | undefined;
  };
}

/** The outcomes of the next calls in order. Empty if the thread only reports that it is making progress. */
export type Answer = readonly Outcome[];

/** How often a busy thread reports, in milliseconds. */
export const answerEveryMs = 1_000;
