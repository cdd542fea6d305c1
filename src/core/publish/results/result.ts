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
 * The results of publications, as returned by the API and the CLI in JSON.
 */

/** The outcome of publishing a bundle to a destination or, in a dry run, the plan. Plain data. */
export interface ActionResult {
  /** The bundle's path in the source, relative to its root; `.` for the root. */
  bundle: string;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  action: Action | 'error';
  reason: Reason | null;
  /** The change to each path; empty if there is nothing to do. */
  changes: PlannedChange[];
  /**
   * Planned paths whose current files are too large to back up. They cannot be restored if the publication
   * fails.
   */
  unkept: string[];
  /** All planned outputs. `size` is in bytes, and `url` is null if no base URL is configured. */
  outputs: { path: string; kind: string; digest: string; size: number; url: string | null }[];
  /**
   * The release that was or would be published. With `skip_same`, it is the current release or one that was
   * rolled back. null for the in-place layout, or if no release was planned.
   */
  release: string | null;
  /**
   * The channel that was or would be switched to the release. null for the current release and the in-place
   * layout.
   */
  channel: string | null;
  /** The public URL of the content; null if there is no base URL or the publication failed. */
  url: string | null;
  /**
   * How many planned outputs were written. This and the next two counters are 0 after a failure, in a dry
   * run, and if a rollback prevents the publication. Otherwise, they add up to the number of planned outputs.
   */
  outputsWritten: number;
  /**
   * How many planned outputs were linked to or copied from the previous release on the server, without
   * transferring them.
   */
  outputsLinked: number;
  /** How many planned outputs kept their file. Their record may have been updated. */
  outputsKept: number;
  outputsRemoved: number;
  bytesWritten: number;
  bytesLinked: number;
  bytesKept: number;
  error: ErrorRecord | null;
}

/** A bundle path whose bundle is gone from the source. Plain data. */
export interface OrphanResult {
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** The bundle that was published there; null if the catalog does not say. */
  bundle: { path: string; created: Instant } | null;
  /** The outputs that were or would be removed, sorted. */
  outputs: string[];
  /** The total size of the recorded outputs, in bytes. */
  bytes: number;
  /** The action that was taken or, in a dry run, would be. */
  action: 'keep' | 'unpublish' | 'error';
  error: ErrorRecord | null;
}

/**
 * Stands in for the bundles of a destination that failed as a whole: its storage could not be opened, the
 * source could not be read, or the run was stopped.
 */
export interface DestinationFailure extends Omit<ActionResult, 'bundle' | 'destinationPath'> {
  bundle: null;
  /** `.` if the destination has a `fixed` mapping. Otherwise null, since the failure has no bundle path. */
  destinationPath: string | null;
}

export interface DestinationResult {
  destinationId: string;
  /** The backend and the location. Does not contain secrets. */
  location: string;
  status: 'ok' | 'failed';
  /** If `error` is set, the last entry is a `DestinationFailure`. */
  actions: (ActionResult | DestinationFailure)[];
  /** Sorted by path; empty for `orphans: keep`. */
  orphans: OrphanResult[];
  warnings: Finding[];
  /**
   * The error, if the failure affects more than one bundle: either the storage could not be opened, or the
   * whole pipeline failed.
   */
  error: ErrorRecord | null;
}

export interface PipelineResult {
  pipelineId: string;
  status: 'ok' | 'failed' | 'skipped';
  /** How many bundles were found. */
  bundles: number;
  /** The invalid bundles. They were not published to any destination. */
  invalidBundles: { bundle: string; error: ErrorRecord }[];
  destinations: DestinationResult[];
  warnings: Finding[];
  /**
   * The error, if the pipeline failed before any destination was opened, for example because its source could
   * not be read. Each destination reports the same error.
   */
  error: ErrorRecord | null;
}

/** The counters that `waybill run` prints. */
export type Counters = Record<Action | 'failed_destinations', number>;

export interface RunResult {
  dryRun: boolean;
  force: boolean;
  pipelines: PipelineResult[];
  counters: Counters;
  warnings: Finding[];
}

/**
 * Reports the progress of a publication, for progress bars and for the records of runs. `bytes` and `count`
 * are byte counts. `planned` says how many outputs will be written, and their total size.
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

/** Counts the actions of all destinations by kind, and the destinations that failed. */
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

/** Reports whether every pipeline succeeded or, in a dry run, whether it would. */
export function allSucceeded(pipelines: readonly PipelineResult[]): boolean {
  return pipelines.every(({ status }) => status !== 'failed');
}

/**
 * Returns a copy of the result that producers may see. Local paths are replaced with `<path>`, and each error
 * with its `publicError`.
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
