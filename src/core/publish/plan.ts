import type { AttemptAction, CatalogState, GeneratedMetadata, OutputRecord } from '../catalog/catalog.ts';
import type { Owner, SourceIdentity } from '../identity.ts';
import type { RelativePath } from '../paths.ts';
import type { Digest } from '../digest.ts';
import type { Key } from '../storage/key.ts';
import type { Body } from '../storage/storage.ts';

/**
 * An output as it should be at the destination: all of a record but the moment, and the bytes to make it so.
 */
export interface PlannedOutput {
  path: RelativePath;
  kind: string;
  digest: Digest;
  size: number;
  generated: GeneratedMetadata;
  url: string | null;
  source: SourceIdentity;
  owner: Owner;
  body: Body;
}

/** The labels of the specification's decision table, `error` apart: that one is no decision. */
export type Action = Exclude<AttemptAction, 'prune'> | 'skip_same' | 'fail_unmanaged' | 'fail_conflict';

/** Why the action was chosen: a stable code and a sentence that names the paths or values that decided. */
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

/** What was seen at one destination bundle path; all that a decision may know. */
export interface Observation {
  state: CatalogState;
  /** The state alone settles the matter (`isSettledByState`), and nothing else was looked at. */
  isSettled: boolean;
  /**
   * Any file that is not the publisher's own and not below a nested managed bundle path. Looked for only
   * where the state is not valid or legacy.
   */
  contentPresent: boolean;
  /**
   * Planned paths that exist in storage and that no valid state records. Looked for only where the state is
   * valid or legacy.
   */
  unrecorded: RelativePath[];
  /**
   * Managed bundle paths strictly below this one, relative to it. Looked for only where a planned path or a
   * forced delete could hit them.
   */
  nested: string[];
}

/** One thing the plan does, for people and JSON. */
export interface PlannedChange {
  path: string;
  /**
   * `add`: not recorded before. `update`: recorded with other metadata. `refresh`: recorded the same, written
   * again. `remove`.
   */
  change: 'add' | 'update' | 'refresh' | 'remove';
}

/**
 * A decision as a value: made purely, printed by a dry run, executed by `apply`. `writes`, `removes` and
 * `keeps` are empty where nothing is to be done.
 */
export interface Plan {
  owner: Owner;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  action: Action;
  reason: Reason;
  /** Every planned output, written anew, sorted by path. */
  writes: PlannedOutput[];
  /**
   * Files that go after all writes succeeded: outputs of this owner that a replacement omits, and what an
   * interrupted attempt of this owner was to remove.
   */
  removes: Key[];
  /** True for `force_replace`: everything below the bundle path but the publisher's own names goes. */
  clears: boolean;
  /** Records of the catalog that stay as they are. */
  keeps: OutputRecord[];
  changes: PlannedChange[];
}
