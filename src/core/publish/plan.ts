import type { AttemptAction, CatalogState, OutputRecord, PublishedBundle } from '../catalog/catalog.ts';
import type { RelativePath } from '../lib/paths.ts';
import type { KeyId } from '../signing/minisign-text.ts';
import type { Owner } from '../storage/identity.ts';
import type { Key } from '../storage/key.ts';
import type { Body, EntryType } from '../storage/storage.ts';

/*
 * The data types of planning: observations, decisions and plans. A dry run prints a plan, and a run executes
 * it.
 */

/** The desired state of an output: its content, and its record without a time. */
export interface PlannedOutput extends Omit<OutputRecord, 'updatedAt'> {
  body: Body;
  /**
   * Whether the content names the run, so that another run generates different bytes from the same inputs.
   */
  namesRun?: boolean;
}

/** The labels from the specification's decision table, except `error`, which is not a decision. */
export type Action =
  Exclude<AttemptAction, 'prune' | 'unpublish'> | 'skip_same' | 'fail_unmanaged' | 'fail_conflict';

/** Reports whether the action changes the destination. */
export function changesDestination(action: Action): boolean {
  return action !== 'skip_same' && action !== 'fail_unmanaged' && action !== 'fail_conflict';
}

/**
 * Explains why the action was chosen: a stable code, and a sentence that names the deciding paths or values.
 */
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
  | 'content_of_catalog_above'
  | 'path_obstructed'
  | 'state_invalid'
  | 'state_unsupported'
  /* Only for the releases layout. */
  | 'release_of_other_owner'
  | 'rolled_back'
  | 'layout_changed'
  | 'channel_set';

/** The observed state of one destination bundle path: all the facts that a decision may use. */
export interface Observation {
  state: CatalogState;
  /**
   * Whether the state alone settles the decision (see `isSettledByState`). If so, the other fields are empty.
   */
  isSettled: boolean;
  /**
   * Whether files other than the publisher's own exist outside nested managed bundle paths. Only determined
   * if the state is neither valid nor legacy.
   */
  contentPresent: boolean;
  /** Planned paths that exist in storage but are not recorded. Only determined if the state is valid. */
  unrecorded: RelativePath[];
  /**
   * Managed bundle paths strictly below this one, relative to it. Only determined if a planned path or a
   * forced deletion could affect them.
   */
  nested: string[];
  /**
   * Planned paths that are recorded with the planned content, but whose file does not match the record. Only
   * determined if the state is valid.
   */
  damaged: ReadonlyMap<string, Damage>;
  /**
   * The files that a forced replacement would delete or overwrite, sorted. Never includes the publisher's own
   * files. Only determined if force is allowed.
   */
  contents: readonly Key[];
  /**
   * Unrecorded entries that block planned writes, by path: a file or link where a directory is needed, or a
   * directory with foreign content where a file is needed. Only determined if the state is valid or legacy.
   */
  obstacles: ReadonlyMap<string, EntryType>;
  /** Whether the storage stores an output's headers along with its content. */
  keepsHeaders: boolean;
  /** The maximum size of a file that can be restored after it was replaced or removed; null for no limit. */
  largestKeptBytes: number | null;
}

/** Identifies a bundle in the catalog. */
export interface BundleIdentity extends Pick<PublishedBundle, 'source' | 'created'> {
  /** The trusted key that signed the bundle. Not recorded in the catalog. */
  signedBy?: KeyId;
}

/** Everything that a decision depends on. */
export interface DecisionInput {
  owner: Owner;
  /** The bundle that the outputs come from. */
  bundle: BundleIdentity;
  workflow: 'additive' | 'replacement';
  force: boolean;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** Sorted by path, each path once. */
  planned: readonly PlannedOutput[];
  observed: Observation;
}

/**
 * The planned change to one path.
 *
 * - `add`: a file is written where none was known.
 * - `change`: an existing file is replaced.
 * - `keep`: the file stays, and only the time of its record changes.
 * - `refresh`: the file stays, and its record changes.
 * - `remove`: the file and its record are removed.
 */
export type Fate = 'add' | 'change' | 'keep' | 'refresh' | 'remove';

/**
 * The reason for a path's fate, as a stable code.
 *
 * Written paths: `not_recorded`; `content_differs` (digest or size) or `headers_differ` compared with the
 * record; `missing`, `size_differs` or `not_a_file` for the recorded file; `interrupted` (an unfinished
 * attempt announced the path, so its content is unknown); `legacy_state` (a superseded record); `forced`.
 *
 * Kept paths: `same`, or the only record field that differs: `headers_differ` (the storage keeps no headers),
 * `kind_differs`, `generator_differs`, `source_differs`, `url_differs`.
 *
 * Removed paths: `omitted` by a replacement; `interrupted` (the unfinished attempt intended to remove it);
 * `cleared` by force.
 */
export type ChangeReason =
  | 'not_recorded'
  | 'content_differs'
  | 'headers_differ'
  | Damage
  | 'interrupted'
  | 'legacy_state'
  | 'forced'
  | 'same'
  | 'kind_differs'
  | 'generator_differs'
  | 'source_differs'
  | 'url_differs'
  | 'omitted'
  | 'cleared';

/** How a published file differs from its record, judging by metadata alone. */
export type Damage = 'missing' | 'size_differs' | 'not_a_file';

/** The planned change to one path. Plain data. */
export interface PlannedChange {
  path: string;
  fate: Fate;
  why: ChangeReason;
}

/**
 * A decision. A dry run prints it, and `apply` executes it. All lists are empty if the action changes
 * nothing.
 */
export interface Plan {
  owner: Owner;
  bundle: BundleIdentity;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  action: Action;
  reason: Reason;
  /** Planned outputs to write (`add`, `change`), sorted by path. */
  writes: PlannedOutput[];
  /**
   * Planned outputs whose files do not change (`keep`, `refresh`), sorted by path. The commit updates the
   * time in their records.
   */
  kept: PlannedOutput[];
  /**
   * Files to remove after all writes succeeded, sorted: outputs of this owner that a replacement omits, files
   * that this owner's interrupted attempt intended to remove, and all files that force clears.
   */
  removes: Key[];
  /** True for `force_replace`: `removes` then lists all unplanned files below the bundle path. */
  clears: boolean;
  /** Recorded files to replace or remove that are too large to be restored after a failure. */
  unkept: string[];
  /** The records of all other paths. */
  untouched: OutputRecord[];
  /**
   * One entry per path in `writes`, `kept` and `removes`: the planned paths first, then the removed ones,
   * each sorted.
   */
  changes: PlannedChange[];
}

/** What an attempt does: execute a plan, or remove an owner's outputs from a bundle path. */
export interface Work extends Pick<Plan, 'owner' | 'writes' | 'kept' | 'removes' | 'clears' | 'untouched'> {
  action: Action | 'unpublish';
  /** The bundle that is published there afterwards; null if the owner no longer has one. */
  bundle: BundleIdentity | null;
}

/** Returns all paths that are written, kept or removed. */
export function concernedPaths({ writes, kept, removes }: Work): Set<string> {
  const paths = new Set<string>(removes);
  for (const { path } of writes) paths.add(path);
  for (const { path } of kept) paths.add(path);
  return paths;
}
