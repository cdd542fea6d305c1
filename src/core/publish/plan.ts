import type { AttemptAction, CatalogState, OutputRecord, PublishedBundle } from '../catalog/catalog.ts';
import type { Owner } from '../identity.ts';
import type { RelativePath } from '../paths.ts';
import type { Key } from '../storage/key.ts';
import type { Body, EntryType } from '../storage/storage.ts';

/** An output as it should be at the destination: a record without its time, and the bytes. */
export interface PlannedOutput extends Omit<OutputRecord, 'updatedAt'> {
  body: Body;
}

/** The labels of the specification's decision table, without `error`, which is not a decision. */
export type Action =
  Exclude<AttemptAction, 'prune' | 'unpublish'> | 'skip_same' | 'fail_unmanaged' | 'fail_conflict';

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
  | 'content_of_catalog_above'
  | 'path_obstructed'
  | 'state_invalid'
  | 'state_unsupported'
  /* Of releases. */
  | 'release_of_other_owner'
  | 'rolled_back'
  | 'layout_changed'
  | 'channel_set';

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
  /**
   * Planned paths whose record vouches for the planned bytes, and at which there is something else. Looked
   * for only if the state is valid.
   */
  damaged: ReadonlyMap<string, Damage>;
  /**
   * Every file that a forced replacement would delete or write over, sorted; never the publisher's own.
   * Looked for only if force is allowed.
   */
  contents: readonly Key[];
  /**
   * What is in the way of planned paths that have to be written, by its path, and is not recorded: a file, a
   * link or the like where a directory is needed, or a directory with foreign content where a file is needed.
   * Looked for only if the state is valid or legacy.
   */
  obstacles: ReadonlyMap<string, EntryType>;
  /** Whether the storage keeps the headers of an output with its bytes. */
  keepsHeaders: boolean;
  /** Larger files cannot be put back once they were replaced or removed; null if there is no such limit. */
  largestKeptBytes: number | null;
}

/** What the catalog records of a bundle. */
export type BundleIdentity = Pick<PublishedBundle, 'source' | 'created'>;

/** Everything that a decision depends on. */
export interface DecisionInput {
  owner: Owner;
  /** The bundle that the outputs are made of. */
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
 * What becomes of one path. `add`: written where no file is known to be. `change`: written in place of the
 * file that is there. `keep`: the bytes stay, and the record with them but for its time. `refresh`: the bytes
 * stay, and the record says something else of them. `remove`: the file goes, and its record.
 */
export type Fate = 'add' | 'change' | 'keep' | 'refresh' | 'remove';

/**
 * Why a path has its fate: a stable code.
 *
 * Of what is written: `not_recorded`; `content_differs` (digest or size) and `headers_differ` from the
 * record; `missing`, `size_differs` and `not_a_file` of the file that the record names; `interrupted` (an
 * unfinished attempt announced the path, so that nothing vouches for its bytes); `legacy_state` (a superseded
 * record); `forced`.
 *
 * Of what is kept: `same`; or what differs in the record alone: `headers_differ` (the storage keeps none),
 * `kind_differs`, `generator_differs`, `source_differs`, `url_differs`.
 *
 * Of what is removed: `omitted` by a replacement; `interrupted` (the unfinished attempt was to remove it);
 * `cleared` by force.
 */
export type Why =
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

/** What can be seen of a published file, without reading it, that contradicts its record. */
export type Damage = 'missing' | 'size_differs' | 'not_a_file';

/** What becomes of one path, for people and JSON. */
export interface PlannedChange {
  path: string;
  fate: Fate;
  why: Why;
}

/**
 * A decision as a value: made by a pure function, printed by a dry run, executed by `apply`. All its lists
 * are empty if the action changes nothing.
 */
export interface Plan {
  owner: Owner;
  bundle: BundleIdentity;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  action: Action;
  reason: Reason;
  /** Planned outputs that are written (`add`, `change`), sorted by path. */
  writes: PlannedOutput[];
  /**
   * Planned outputs whose bytes stay (`keep`, `refresh`), sorted by path. Their records are written anew by
   * the commit, with the time of the publication.
   */
  kept: PlannedOutput[];
  /**
   * Files to remove once all writes have succeeded, sorted: outputs of this owner that a replacement omits,
   * those that an interrupted attempt of this owner was to remove, and all that force clears.
   */
  removes: Key[];
  /** True for `force_replace`: `removes` are all files below the bundle path that are not planned. */
  clears: boolean;
  /** Recorded files that are replaced or removed and too large to be put back after a failure. */
  unkept: string[];
  /** Records of paths that the plan does not concern. */
  untouched: OutputRecord[];
  /** Of every path in `writes`, `kept` and `removes`: first the planned ones, sorted, then the removed. */
  changes: PlannedChange[];
}

/** What an attempt carries out: a plan, or the removal of what an owner has published at a bundle path. */
export interface Work extends Pick<Plan, 'owner' | 'writes' | 'kept' | 'removes' | 'clears' | 'untouched'> {
  action: Action | 'unpublish';
  /** The bundle that is published there afterwards; null if the owner has none there any more. */
  bundle: BundleIdentity | null;
}

/** The paths that the work writes, keeps or removes. Pure. */
export function concernedPaths({ writes, kept, removes }: Work): Set<string> {
  const paths = new Set<string>(removes);
  for (const { path } of writes) paths.add(path);
  for (const { path } of kept) paths.add(path);
  return paths;
}
