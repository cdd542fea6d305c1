import type { ErrorRecord } from '../../errors.ts';
import type { Finding } from '../../finding.ts';
import type { Instant } from '../../instant.ts';
import type { Action, PlannedChange, Reason } from '../plan.ts';

/** What was done, or would be done, with one bundle at one destination. Plain data. */
export interface ActionResult {
  /** The bundle's path relative to the source root; `.` for the root. */
  bundle: string;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  action: Action | 'error';
  reason: Reason | null;
  /** What becomes of each path; empty if the action changes nothing. */
  changes: PlannedChange[];
  /** Paths of the plan whose files are too large to be put back if the publication fails. */
  unkept: string[];
  /** Every planned output; `size` in bytes, `url` null unless one is configured. */
  outputs: { path: string; kind: string; digest: string; size: number; url: string | null }[];
  /**
   * The release that was published, or would be; of a `skip_same` the current one, or the one that was rolled
   * back. Null in place, and where none was planned.
   */
  release: string | null;
  /** The channel that leads to it, or would; null for the current release, and in place. */
  channel: string | null;
  /** Where readers find it, or would; null if no setting says, and after a failure. */
  url: string | null;
  /**
   * What was done; all 0 in a dry run, after a failure, and where a rollback holds the outputs back. Written,
   * linked and kept outputs together are all planned ones.
   */
  outputsWritten: number;
  /** Planned outputs that a release got from the one before it, without passing through this machine. */
  outputsLinked: number;
  /** Planned outputs whose bytes stayed as they were, the refreshed ones included. */
  outputsKept: number;
  outputsRemoved: number;
  bytesWritten: number;
  bytesLinked: number;
  bytesKept: number;
  error: ErrorRecord | null;
}

/** A bundle path that was published from this source, which does not hold the bundle any more. Plain data. */
export interface OrphanResult {
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** The bundle that was published there; null if the catalog does not say. */
  bundle: { path: string; created: Instant } | null;
  /** Everything that goes, or would go, with it; sorted. */
  outputs: string[];
  /** Bytes of the recorded ones. */
  bytes: number;
  /** What was done with it, or would be done. */
  action: 'keep' | 'unpublish' | 'error';
  error: ErrorRecord | null;
}

/**
 * The action `error` of a destination that failed as a whole: its storage did not open, the source could not
 * be read, or the run was stopped. No bundle is named.
 */
export interface DestinationFailure extends Omit<ActionResult, 'bundle' | 'destinationPath'> {
  bundle: null;
  /** `.` at a fixed destination; else null, because no bundle path is known. */
  destinationPath: string | null;
}

export interface DestinationResult {
  destinationId: string;
  /** Backend and location, without secrets. */
  location: string;
  status: 'ok' | 'failed';
  /** Ends with a `DestinationFailure` if `error` is set. */
  actions: (ActionResult | DestinationFailure)[];
  /** Sorted by path; empty where `orphans` of the destination is `keep`. */
  orphans: OrphanResult[];
  warnings: Finding[];
  /**
   * A failure that is not that of a single bundle, such as a storage that did not open, or the pipeline's own
   * error; else null.
   */
  error: ErrorRecord | null;
}

export interface PipelineResult {
  pipelineId: string;
  status: 'ok' | 'failed' | 'skipped';
  /** Bundles found. */
  bundles: number;
  /** Bundles that are invalid, so that they were not published anywhere. */
  invalidBundles: { bundle: string; error: ErrorRecord }[];
  destinations: DestinationResult[];
  warnings: Finding[];
  /**
   * A failure before any destination was looked at, such as an unreadable source; else null. Every
   * destination has it too, since nothing was published there.
   */
  error: ErrorRecord | null;
}

/** The counters that the specification of `run` asks for. */
export interface Counters {
  publish_new: number;
  upsert_additive: number;
  replace_catalog: number;
  skip_same: number;
  force_replace: number;
  fail_unmanaged: number;
  fail_conflict: number;
  failed_destinations: number;
}

export interface RunResult {
  dryRun: boolean;
  force: boolean;
  pipelines: PipelineResult[];
  counters: Counters;
  warnings: Finding[];
}

/**
 * Progress of a publication, for progress bars and run records. `bytes` and `count` are bytes; `outputs` and
 * `bytes` of `planned` are what will be written.
 */
export type Progress =
  | {
      type: 'planned';
      destinationId: string;
      destinationPath: string;
      action: Action;
      outputs: number;
      bytes: number;
    }
  | { type: 'bytes'; destinationId: string; count: number }
  | { type: 'output'; destinationId: string; path: string }
  | { type: 'done'; destinationId: string; result: ActionResult };
