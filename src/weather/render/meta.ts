import type { Instant } from '../instant.ts';
import type { UnknownPart } from '../known.ts';
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
  /** Parts of the record that are unknown. Null or an empty list there does not mean none. */
  unknown?: readonly UnknownPart[];
  /** Parts that come from another issue, since those of the newest have not arrived. */
  otherIssues?: readonly { field: string; issuedAt: Instant }[];
  /** When a newer issue was issued of which too little has arrived to answer with it. */
  newerIssuedAt?: Instant;
  /** Fields that are null, and records that were left out, since they cannot be. */
  rejected?: readonly RejectedFields[];
}

export interface RejectedFields {
  /** Table and column. */
  field: string;
  reason: RejectionReason;
  count: number;
}
