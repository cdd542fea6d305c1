import type { AttemptAction, CatalogState, GeneratedMetadata, OutputRecord } from '../catalog/catalog.ts';
import type { Owner, SourceIdentity } from '../identity.ts';
import type { RelativePath } from '../paths.ts';
import type { Digest } from '../digest.ts';
import type { Key } from '../storage/key.ts';
import type { Body } from '../storage/storage.ts';

/** An output as it should be at the destination: a record without its time, and the bytes. */
export interface PlannedOutput {
  path: RelativePath;
  kind: string;
  digest: Digest;
  /** Bytes. */
  size: number;
  generated: GeneratedMetadata;
  url: string | null;
  source: SourceIdentity;
  owner: Owner;
  body: Body;
}

/** The labels of the specification's decision table, without `error`, which is not a decision. */
export type Action = Exclude<AttemptAction, 'prune'> | 'skip_same' | 'fail_unmanaged' | 'fail_conflict';

/** Whether the action changes the destination. Pure. */
export function changesDestination(action: Action): boolean {
  return action !== 'skip_same' && action !== 'fail_unmanaged' && action !== 'fail_conflict';
}

/** Why the action was chosen: a stable code and a sentence with the paths or values that decided. */
export interface Reason {
  code: ReasonCode;
  message: string;
}

export type ReasonCode =
  | 'destination_empty'
  | 'outputs_differ'
  | 'outputs_omitted'
  | 'attempt_interrupted'
  | 'legacy_state'
  | 'all_recorded'
  | 'content_unmanaged'
  | 'path_unrecorded'
  | 'path_of_other_owner'
  | 'path_in_nested_bundle'
  | 'path_blocked'
  | 'state_invalid'
  | 'state_unsupported';

/** What was seen at one destination bundle path: everything that a decision may know about it. */
export interface Observation {
  state: CatalogState;
  /** The state alone settles the decision (`isSettledByState`), and nothing else was looked at. */
  isSettled: boolean;
  /**
   * There is a file that is not the publisher's own and not below a nested managed bundle path. Looked for
   * only if the state is neither valid nor legacy.
   */
  contentPresent: boolean;
  /**
   * Planned paths that exist in storage and that the state does not record. Looked for only if it is valid.
   */
  unrecorded: RelativePath[];
  /**
   * Managed bundle paths strictly below this one, relative to it. Looked for only if a planned path or a
   * forced deletion could hit them.
   */
  nested: string[];
}

/** Everything that a decision depends on. */
export interface DecisionInput {
  owner: Owner;
  workflow: 'additive' | 'replacement';
  force: boolean;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** Sorted by path, each path once. */
  planned: readonly PlannedOutput[];
  observed: Observation;
}

/** One change that the plan makes, for people and JSON. */
export interface PlannedChange {
  path: string;
  /**
   * `add`: not recorded before. `update`: recorded differently. `refresh`: recorded the same, written again.
   * `remove`: removed, with its record.
   */
  change: 'add' | 'update' | 'refresh' | 'remove';
}

/**
 * A decision as a value: made by a pure function, printed by a dry run, executed by `apply`. `writes`,
 * `removes`, `keeps` and `changes` are empty if the action changes nothing.
 */
export interface Plan {
  owner: Owner;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  action: Action;
  reason: Reason;
  /** Every planned output, to be written anew, sorted by path. */
  writes: PlannedOutput[];
  /**
   * Files to remove once all writes have succeeded: outputs of this owner that a replacement omits, and those
   * that an interrupted attempt of this owner was to remove.
   */
  removes: Key[];
  /** True for `force_replace`: everything below the bundle path goes, except the publisher's own names. */
  clears: boolean;
  /** Records of the catalog that stay as they are. */
  keeps: OutputRecord[];
  changes: PlannedChange[];
}
