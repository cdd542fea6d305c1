import type { AttemptAction, CatalogState, OutputRecord, PublishedBundle } from '../catalog/catalog.ts';
import type { RelativePath } from '../lib/paths.ts';
import type { KeyId } from '../signing/minisign-text.ts';
import type { Owner } from '../storage/identity.ts';
import type { Key } from '../storage/key.ts';
import type { Body, EntryType } from '../storage/storage.ts';

/*
 * The data types used in planning: observations, decisions and plans. A dry run prints a plan; a real run
 * carries it out.
 */

/** An output as it should be: its content, and its record except for the time. */
export interface PlannedOutput extends Omit<OutputRecord, 'updatedAt'> {
  body: Body;
  /**
   * Whether the content contains the run's id. If so, every run generates different bytes from the same
   * inputs.
   */
  includesRunId?: boolean;
}

/** The actions in the specification's decision table. `error` is missing, because it is not a decision. */
export type Action =
  Exclude<AttemptAction, 'prune' | 'unpublish'> | 'skip_same' | 'fail_unmanaged' | 'fail_conflict';

export function changesDestination(action: Action): boolean {
  return action !== 'skip_same' && action !== 'fail_unmanaged' && action !== 'fail_conflict';
}

/** Explains a decision with a stable code and a sentence that names the paths or values that led to it. */
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
  /* For the releases layout only. */
  | 'release_of_other_owner'
  | 'rolled_back'
  | 'layout_changed'
  | 'channel_set';

/** The state of a bundle path when it was last checked. Decisions may not use anything else. */
export interface Observation {
  state: CatalogState;
  /**
   * Whether the state alone is enough to decide (see `isSettledByState`). The other fields are then empty.
   */
  isSettled: boolean;
  /**
   * Whether there are files outside nested managed bundle paths that are not the publisher's own. Only set if
   * the state is neither valid nor legacy.
   */
  contentPresent: boolean;
  /** One of these files, to name it in a refusal; null if there is none, or if force is allowed. */
  unmanagedFile: Key | null;
  /** Planned paths that exist in storage but not in the state. Only set if the state is valid. */
  unrecorded: RelativePath[];
  /**
   * Managed bundle paths somewhere below this one, relative to it. Only set if a planned path or a forced
   * deletion might affect them.
   */
  nested: string[];
  /**
   * Planned paths that are recorded with the planned content, but whose files have been damaged. Only set if
   * the state is valid.
   */
  damaged: ReadonlyMap<string, Damage>;
  /**
   * The files that a forced replacement would delete or overwrite, sorted. The publisher's own files are
   * never among them. Only set if force is allowed.
   */
  contents: readonly Key[];
  /**
   * Unrecorded entries that are in the way of a planned write, by path: a file or link where a directory is
   * needed, or a directory with foreign content where a file is needed. Only set if the state is valid or
   * legacy.
   */
  obstacles: ReadonlyMap<string, EntryType>;
  /** Whether the storage saves headers along with an output's content. */
  keepsHeaders: boolean;
  /** The largest file that can be backed up before it is replaced or removed, in bytes; null for no limit. */
  maxBackupBytes: number | null;
}

export interface BundleIdentity extends Pick<PublishedBundle, 'source' | 'created'> {
  /** The trusted key that the bundle was signed with. The catalog does not record it. */
  signedBy?: KeyId;
}

/** Everything a decision depends on except the observation. */
export interface DecisionBasis {
  owner: Owner;
  bundle: BundleIdentity;
  workflow: 'additive' | 'replacement';
  force: boolean;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** Sorted by path, without duplicates. */
  planned: readonly PlannedOutput[];
}

export interface DecisionInput extends DecisionBasis {
  observed: Observation;
}

/**
 * The change to one path.
 *
 * - `add`: write a file where there was none.
 * - `change`: replace an existing file.
 * - `keep`: leave the file alone, and update only the time in its record.
 * - `refresh`: leave the file alone, and update its record.
 * - `remove`: delete the file and its record.
 */
export type Fate = 'add' | 'change' | 'keep' | 'refresh' | 'remove';

/**
 * The reason for a change, as a stable code.
 *
 * Paths to write: `not_recorded`; `content_differs` (different digest or size than recorded) or
 * `headers_differ`; `missing`, `size_differs` or `not_a_file` if the published file is damaged; `interrupted`
 * if an unfinished attempt may have written it, so its content is unknown; `legacy_state` if its record is
 * from an older version; `forced`.
 *
 * Paths to keep: `same`, or the one thing about the record that is different: `headers_differ` (if the
 * storage does not save headers), `kind_differs`, `generator_differs`, `source_differs`, `url_differs`.
 *
 * Paths to remove: `omitted` by a replacement; `interrupted` if an unfinished attempt was going to remove it;
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

/** The way in which a published file is damaged, as far as its metadata shows. */
export type Damage = 'missing' | 'size_differs' | 'not_a_file';

/** The change to one path. Plain data. */
export interface PlannedChange {
  path: string;
  fate: Fate;
  why: ChangeReason;
}

/**
 * A decision. A dry run prints it, and `apply` carries it out. If nothing is to be changed, all lists are
 * empty.
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
   * Planned outputs whose files stay as they are (`keep`, `refresh`), sorted by path. Committing updates the
   * times in their records.
   */
  kept: PlannedOutput[];
  /**
   * Files to remove after everything has been written, sorted: this owner's outputs that are missing from a
   * replacement, files that this owner's interrupted attempt was going to remove, and everything that force
   * clears.
   */
  removes: Key[];
  /**
   * True for `force_replace`. In that case, `removes` lists all files below the bundle path that are not
   * planned.
   */
  clears: boolean;
  /** Recorded files that will be replaced or removed, but are too large to be restored after a failure. */
  unkept: string[];
  /** The records of all paths that the plan does not mention. */
  untouched: OutputRecord[];
  /**
   * One entry for each path in `writes`, `kept` and `removes`: first the planned paths, then the removed
   * ones, both sorted.
   */
  changes: PlannedChange[];
}

/** The work of one attempt: carry out a plan, or remove an owner's outputs from a bundle path. */
export interface Work extends Pick<Plan, 'owner' | 'writes' | 'kept' | 'removes' | 'clears' | 'untouched'> {
  action: Action | 'unpublish';
  /** The bundle that will be published there afterwards; null if the owner has none there anymore. */
  bundle: BundleIdentity | null;
}

export function concernedPaths({ writes, kept, removes }: Work): Set<string> {
  const paths = new Set<string>(removes);
  for (const { path } of writes) paths.add(path);
  for (const { path } of kept) paths.add(path);
  return paths;
}
