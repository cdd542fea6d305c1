/** Why a field became null, or a row was left out. */
export const rejectionReasons = [
  'bad_geometry',
  'bad_instant',
  'bad_json',
  'in_future',
  'not_finite',
  'out_of_range',
  'unknown_time_zone',
  'unknown_value',
] as const;
export type RejectionReason = (typeof rejectionReasons)[number];

/** One bad field of one record. */
export interface Rejection {
  /** Table and column: `observations.temperature_c`. */
  field: string;
  reason: RejectionReason;
  /** What tells the record from others of its table: `KNYC 2026-01-20T17:51:00Z`. */
  record: string;
  /** Whether the whole record was left out. */
  isLeftOut: boolean;
}

export type Note = (rejection: Rejection) => void;
