import type { Instant } from '../instant.ts';
import type { ResolvedPlace } from '../family.ts';
import type { RejectionReason } from '../rows/rejections.ts';

/** What an answer says about its data, beside it; only what there is to say. */
export interface AnswerMeta {
  /** Only ever true: the data is older than it should be. */
  stale?: true;
  /** When the newest of the data was measured, issued or fetched; beside `stale`. */
  asOf?: Instant;
  /** Which place stands for the point that was asked for. */
  resolved?: ResolvedPlace;
  /** Fields that are null, and records that were left out, since they cannot be. */
  rejected?: readonly RejectedFields[];
}

export interface RejectedFields {
  /** Table and column. */
  field: string;
  reason: RejectionReason;
  count: number;
}
