import {
  type ErrorRecord,
  type Finding,
  publicError,
  publicFinding,
  withoutPaths,
} from '../../lib/errors.ts';
import type { Instant } from '../../lib/instant.ts';
import type { Action, PlannedChange, Reason } from '../plan.ts';

/*
 * The results of publications. The API and CLI return them as JSON.
 */

/** The outcome for one bundle at one destination, or the plan in a dry run. Plain data. */
export interface ActionResult {
  /** The bundle's path relative to the source root; `.` for the root. */
  bundle: string;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  action: Action | 'error';
  reason: Reason | null;
  /** The change of each path; empty if the action changes nothing. */
  changes: PlannedChange[];
  /** Planned paths whose current files are too large to be restored if the publication fails. */
  unkept: string[];
  /** All planned outputs. `size` is in bytes, and `url` is null if no base URL is configured. */
  outputs: { path: string; kind: string; digest: string; size: number; url: string | null }[];
  /**
   * The release that was or would be published. For `skip_same`, this is the current release or the one that
   * was rolled back. It is null for the in-place layout, and if no release was planned.
   */
  release: string | null;
  /**
   * The channel that points, or would point, at the release; null for the current release and the in-place
   * layout.
   */
  channel: string | null;
  /** The public URL of the content; null if none is configured, and after a failure. */
  url: string | null;
  /**
   * Planned outputs that were written. All three counters are 0 in a dry run, after a failure, and if a
   * rollback holds the outputs back. Otherwise, written, linked and kept outputs add up to the planned ones.
   */
  outputsWritten: number;
  /**
   * Planned outputs taken from the previous release, by a link or a copy on the server, without a transfer.
   */
  outputsLinked: number;
  /** Planned outputs whose files did not change, including those with a refreshed record. */
  outputsKept: number;
  outputsRemoved: number;
  bytesWritten: number;
  bytesLinked: number;
  bytesKept: number;
  error: ErrorRecord | null;
}

/** A bundle path whose bundle no longer exists in the source. Plain data. */
export interface OrphanResult {
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** The bundle that was published there; null if the catalog does not record it. */
  bundle: { path: string; created: Instant } | null;
  /** The outputs that were or would be removed with it, sorted. */
  outputs: string[];
  /** The total size of the recorded outputs. */
  bytes: number;
  /** The action taken, or planned in a dry run. */
  action: 'keep' | 'unpublish' | 'error';
  error: ErrorRecord | null;
}

/**
 * The action `error` for a destination that failed as a whole: its storage could not be opened, the source
 * could not be read, or the run was stopped.
 */
export interface DestinationFailure extends Omit<ActionResult, 'bundle' | 'destinationPath'> {
  bundle: null;
  /** `.` for a destination with `fixed` mapping; otherwise null, because no bundle path is known. */
  destinationPath: string | null;
}

export interface DestinationResult {
  destinationId: string;
  /** Backend and location, without secrets. */
  location: string;
  status: 'ok' | 'failed';
  /** Ends with a `DestinationFailure` if `error` is set. */
  actions: (ActionResult | DestinationFailure)[];
  /** Sorted by path; empty if the destination has `orphans: keep`. */
  orphans: OrphanResult[];
  warnings: Finding[];
  /**
   * A failure that is not specific to one bundle, such as a storage that could not be opened, or the
   * pipeline's error; otherwise null.
   */
  error: ErrorRecord | null;
}

export interface PipelineResult {
  pipelineId: string;
  status: 'ok' | 'failed' | 'skipped';
  /** The number of bundles found. */
  bundles: number;
  /** Invalid bundles, which were not published anywhere. */
  invalidBundles: { bundle: string; error: ErrorRecord }[];
  destinations: DestinationResult[];
  warnings: Finding[];
  /**
   * A failure before any destination was opened, such as an unreadable source; otherwise null. Every
   * destination then reports the same error.
   */
  error: ErrorRecord | null;
}

/** The counters printed by `waybill run`. */
export type Counters = Record<Action | 'failed_destinations', number>;

export interface RunResult {
  dryRun: boolean;
  force: boolean;
  pipelines: PipelineResult[];
  counters: Counters;
  warnings: Finding[];
}

/**
 * Progress events of a publication, for progress bars and run records. `bytes` and `count` are in bytes.
 * `planned` carries the number and total size of the outputs to write.
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

/** Counts all destinations' actions by label, and the failed destinations. */
export function countActions(pipelines: readonly PipelineResult[]): Counters {
  const counters: Counters = {
    publish_new: 0,
    upsert_additive: 0,
    replace_catalog: 0,
    skip_same: 0,
    force_replace: 0,
    fail_unmanaged: 0,
    fail_conflict: 0,
    failed_destinations: 0,
  };
  for (const { destinations } of pipelines)
    for (const { actions, status } of destinations) {
      if (status === 'failed') counters.failed_destinations += 1;
      for (const { action } of actions) if (action !== 'error') counters[action satisfies Action] += 1;
    }
  return counters;
}

/** Reports whether every pipeline succeeded, or would succeed in a dry run. */
export function allSucceeded(pipelines: readonly PipelineResult[]): boolean {
  return pipelines.every(({ status }) => status !== 'failed');
}

/**
 * Returns a copy of the result that is safe to show to producers: local paths are replaced with `<path>`, and
 * errors with their `publicError`.
 */
export function publicResult(result: RunResult): RunResult {
  return { ...result, pipelines: result.pipelines.map(publicPipeline), warnings: publicFindings(result) };
}

function publicPipeline(pipeline: PipelineResult): PipelineResult {
  return {
    ...pipeline,
    invalidBundles: pipeline.invalidBundles.map(({ bundle, error }) => ({
      bundle,
      error: publicError(error),
    })),
    destinations: pipeline.destinations.map(publicDestination),
    warnings: publicFindings(pipeline),
    error: errorOrNull(pipeline.error),
  };
}

function publicDestination(destination: DestinationResult): DestinationResult {
  const { location } = destination;
  return {
    ...destination,
    location: location.startsWith('/') ? '<path>' : location,
    actions: destination.actions.map(publicAction),
    orphans: destination.orphans.map((orphan): OrphanResult => ({
      ...orphan,
      error: errorOrNull(orphan.error),
    })),
    warnings: publicFindings(destination),
    error: errorOrNull(destination.error),
  };
}

function publicAction(action: DestinationResult['actions'][number]): DestinationResult['actions'][number] {
  const { reason, error } = action;
  return {
    ...action,
    reason: reason === null ? null : { ...reason, message: withoutPaths(reason.message) },
    error: errorOrNull(error),
  };
}

function publicFindings({ warnings }: { warnings: readonly Finding[] }): Finding[] {
  return warnings.map(publicFinding);
}

function errorOrNull(error: ErrorRecord | null): ErrorRecord | null {
  return error === null ? null : publicError(error);
}
