import type { DiskCallName } from '../../core/lib/disk.ts';

/** A call for the thread of a disk. */
export interface DiskRequest {
  name: DiskCallName;
  args: readonly unknown[];
}

/** What came of one call. */
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

/**
 * The outcomes of the next calls, in their order; none if the thread only says that it is getting on with
 * one.
 */
export type Answer = readonly Outcome[];

/** A thread that has much to do says so this often, in milliseconds. */
export const answerEveryMs = 1_000;
