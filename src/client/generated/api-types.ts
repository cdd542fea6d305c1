/* Made from /openapi.json by `npm run generate`. */

export type RunRecordCount = number;
/**
 * null unless the pipeline is paused. No run of a paused pipeline starts.
 */
export type Pause = {
  since: string;
  reason: string | null;
} | null;

export interface ApiTypes {
  RunRecord?: RunRecord;
  RunSearch?: RunSearch;
  Accepted?: Accepted;
  Plan?: Plan;
  PartialUpload?: PartialUpload;
  MissingFiles?: MissingFiles;
  Releases?: Releases;
  Release?: Release;
  ReleaseDiff?: ReleaseDiff;
  ReleaseSwitch?: ReleaseSwitch;
  PipelineList?: PipelineList;
}
/**
 * The body of GET /runs/{run_id}: one publication of one upload.
 */
export interface RunRecord {
  run_id: string;
  pipeline_id: string;
  /**
   * The run that this one repeats; null if it repeats none.
   */
  rerun_of: string | null;
  /**
   * The channel that it publishes to; null for what is current, and where destinations are published in place.
   */
  channel: string | null;
  /**
   * The path of the uploaded bundle; null if the pipeline reads a source. Records of older versions have none.
   */
  bundle_path?: string | null;
  /**
   * Where the files come from, by the metadata of the manifest; null if it does not say. For people: the uploading client writes it. Records of older versions have none.
   */
  revision?: null | RunRecordRevision;
  /**
   * The trusted publisher that uploaded the bundle or started the run, with claims of its ID token; null if there is none. Records of older versions have none.
   */
  published_by?: null | RunRecordPublishedBy;
  /**
   * Whether it can be run again: it has ended, and nothing that this takes is gone or was used for it.
   */
  rerunnable: boolean;
  status: 'accepted' | 'queued' | 'running' | 'succeeded' | 'failed';
  triggered_by: RunRecordTriggeredBy;
  accepted_at: string;
  queued_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  /**
   * The number of the try that runs, ran last, or comes next; 1 is the first.
   */
  attempt: number;
  /**
   * When the next try is due; null unless the run failed for a temporary cause and is queued again.
   */
  next_try_at: string | null;
  /**
   * Until when the run is tried again; null if no try has failed for a temporary cause.
   */
  retry_until: string | null;
  /**
   * Cause of the last failed try that another one followed or follows; null if there is none.
   */
  last_error: null | RunRecordError;
  /**
   * While the run waits for its next try, those of the last one.
   */
  destinations: RunRecordDestination[];
  /**
   * How far it is while it runs; null before and after.
   */
  progress: null | RunRecordProgress;
  summary: null | RunRecordCounters;
  /**
   * What is worth knowing of a run that may well have succeeded, such as which bundle a fixed destination selected; empty until the run has finished.
   */
  warnings: RunRecordWarning[];
  /**
   * What stopped the run as a whole; what failed at one destination stands there.
   */
  error: null | RunRecordError;
  /**
   * The trace that the run belongs to, as in log lines and spans; null if it was accepted without one.
   */
  trace_id: string | null;
  /**
   * Deliveries of the run's events of which a try failed; they may change after its end.
   */
  failed_deliveries: RunRecordFailedDelivery[];
  /**
   * How many more failed, which have no room here.
   */
  failed_deliveries_omitted: number;
}
export interface RunRecordRevision {
  message: string | null;
  commit: string | null;
  branch: string | null;
  author: string | null;
}
export interface RunRecordPublishedBy {
  /**
   * Id of the entry of `trusted_publishers`.
   */
  publisher_id: string;
  /**
   * The claim `sub`.
   */
  subject: string | null;
  repository: string | null;
  ref: string | null;
  sha: string | null;
  /**
   * The run, pipeline or build of the CI system.
   */
  ci_run_id: string | null;
  /**
   * SHA-256 of all claims.
   */
  claims_digest: string;
}
/**
 * What made the run.
 */
export interface RunRecordTriggeredBy {
  /**
   * An uploaded bundle, somebody who started it, a tick of the schedule of its pipeline, or a change of its source.
   */
  kind: 'upload' | 'request' | 'schedule' | 'watch';
  /**
   * The time of the schedule that it was made for; null for the other kinds.
   */
  tick: string | null;
  /**
   * The id of the token that uploaded the bundle, started the run or repeated it; null for a schedule and a watched source. Records of older versions have none.
   */
  token_id?: string | null;
}
export interface RunRecordError {
  code: string;
  message: string;
  hint: string | null;
  retryable: boolean;
  findings: {
    [k: string]: unknown;
  }[];
}
export interface RunRecordDestination {
  destination_id: string;
  action:
    | 'publish_new'
    | 'upsert_additive'
    | 'replace_catalog'
    | 'skip_same'
    | 'force_replace'
    | 'fail_unmanaged'
    | 'fail_conflict'
    | 'error';
  /**
   * Why this action: a stable code, and a sentence for people. Null where there was nothing to decide.
   */
  reason: {
    code: string;
    message: string;
  } | null;
  /**
   * Relative to the destination root; `.` for the root.
   */
  destination_path: string | null;
  /**
   * The release that was published; of a skip_same the current one, or the one that was rolled back. Null in place, and after a failure.
   */
  release: string | null;
  /**
   * Where readers find it, by public_base_url of the destination or of the channel; null if no setting says, and after a failure. Records of older versions have none.
   */
  url?: string | null;
  outputs_written: RunRecordCount;
  /**
   * Planned outputs that a release got from the one before it, by a link or a copy that the storage made.
   */
  outputs_linked: number;
  /**
   * Planned outputs whose bytes stayed as they were; with outputs_written and outputs_linked, all of them, but 0 where a rollback holds them back.
   */
  outputs_kept: number;
  outputs_removed: RunRecordCount;
  bytes_written: RunRecordCount;
  bytes_linked: RunRecordCount;
  bytes_kept: RunRecordCount;
  /**
   * The first paths that do not stay as they were: what becomes of each, and why. Also of a publication that failed.
   */
  changes: {
    path: string;
    fate: 'add' | 'change' | 'refresh' | 'remove';
    why: string;
  }[];
  /**
   * How many more there are.
   */
  changes_omitted: number;
  error: null | RunRecordError;
  /**
   * When it was done; null if only the end of the run is known. Records of older versions have none.
   */
  finished_at?: string | null;
}
export interface RunRecordProgress {
  /**
   * `preparing`: bundle and destinations are looked at. `writing`: outputs are on their way. `committing`: all that is planned so far is written, and is put in place and recorded.
   */
  stage: 'preparing' | 'writing' | 'committing';
  outputs_done: RunRecordCount;
  outputs_total: RunRecordCount;
  bytes_done: RunRecordCount;
  bytes_total: RunRecordCount;
  /**
   * The same counts for each destination that has a plan. Records of older versions have none.
   */
  destinations?: {
    destination_id: string;
    outputs_done: RunRecordCount;
    outputs_total: RunRecordCount;
    bytes_done: RunRecordCount;
    bytes_total: RunRecordCount;
  }[];
}
export interface RunRecordCounters {
  publish_new: RunRecordCount;
  upsert_additive: RunRecordCount;
  replace_catalog: RunRecordCount;
  skip_same: RunRecordCount;
  force_replace: RunRecordCount;
  fail_unmanaged: RunRecordCount;
  fail_conflict: RunRecordCount;
  failed_destinations: RunRecordCount;
}
export interface RunRecordWarning {
  /**
   * Null if it is about the bundle or the source.
   */
  destination_id: string | null;
  code: string;
  message: string;
}
export interface RunRecordFailedDelivery {
  notifier_id: string;
  event_id: string;
  event_type: string;
  /**
   * `retrying`: it is tried again by itself. `given_up`: it is undelivered, until somebody has it sent again. `delivered`: in the end.
   */
  status: 'retrying' | 'given_up' | 'delivered';
  tries: RunRecordCount;
  /**
   * Why it failed last, without addresses; null if that is not known any more.
   */
  last_error: string | null;
  /**
   * While it is tried again; null if no time is set.
   */
  next_try_at: string | null;
  updated_at: string;
}
/**
 * Retained runs of several pipelines, newest first.
 */
export interface RunSearch {
  runs: RunRecord[];
  /**
   * Path and query of the next page, or null on the last page.
   */
  next: string | null;
}
/**
 * An accepted run. `Location` is the URL of its record.
 */
export interface Accepted {
  run_id: string;
  status: 'accepted';
  /**
   * Position in the queue of its pipeline at acceptance. 1 means that no other run was waiting. An active run does not count.
   */
  position?: number;
}
export interface Plan {
  schema_version: 1;
  kind: 'run';
  dry_run: boolean;
  force: boolean;
  pipelines: PlanPipeline[];
  counters: PlanCounters;
  warnings: PlanFinding[];
}
export interface PlanPipeline {
  pipeline_id: string;
  status: 'ok' | 'failed' | 'skipped';
  bundles: number;
  invalid_bundles: {
    bundle: string;
    error: PlanError;
  }[];
  destinations: PlanDestination[];
  warnings: PlanFinding[];
  error: PlanError | null;
}
export interface PlanError {
  /**
   * One of the codes in docs/errors.md.
   */
  code: string;
  message: string;
  hint: string | null;
  retryable: boolean;
  findings: PlanFinding[];
}
/**
 * One result of a validation, and its place where it has one.
 */
export interface PlanFinding {
  severity: 'error' | 'warning';
  code: string;
  message: string;
  file: string | null;
  pointer: string | null;
  line: number | null;
  column: number | null;
}
export interface PlanDestination {
  destination_id: string;
  location: string;
  status: 'ok' | 'failed';
  /**
   * One for each bundle, and the action error if the destination failed as a whole: every failed destination has an action with an error, or an orphan with one.
   */
  actions: PlanAction[];
  /**
   * Bundle paths that were published from this source, which does not hold the bundles any more; empty where orphans is keep
   */
  orphans: {
    destination_path: string;
    /**
     * What was published there; null if the catalog does not say
     */
    bundle: {
      path: string;
      created: string;
    } | null;
    /**
     * What goes, or would go, with it; sorted
     */
    outputs: string[];
    bytes: number;
    /**
     * What was done, or would be done in a dry run
     */
    action: 'keep' | 'unpublish' | 'error';
    error: PlanError | null;
  }[];
  warnings: PlanFinding[];
  error: PlanError | null;
}
export interface PlanAction {
  /**
   * Path relative to the source root; . for the root. null for the action error of a destination that failed as a whole.
   */
  bundle: string | null;
  /**
   * Path relative to the destination root; . for the root. null if the destination failed before a bundle path was known.
   */
  destination_path: string | null;
  action:
    | 'publish_new'
    | 'upsert_additive'
    | 'replace_catalog'
    | 'skip_same'
    | 'force_replace'
    | 'fail_unmanaged'
    | 'fail_conflict'
    | 'error';
  reason: {
    code: string;
    message: string;
  } | null;
  changes: {
    path: string;
    /**
     * add and change: written. keep: nothing is written. refresh: the record alone is. remove: the file goes, and its record.
     */
    fate: 'add' | 'change' | 'keep' | 'refresh' | 'remove';
    why:
      | 'not_recorded'
      | 'content_differs'
      | 'headers_differ'
      | 'missing'
      | 'size_differs'
      | 'not_a_file'
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
  }[];
  /**
   * Paths of the plan whose files are too large to be put back if the publication fails.
   */
  unkept: string[];
  outputs: {
    path: string;
    kind: string;
    digest: string;
    size: number;
    url: string | null;
  }[];
  /**
   * The release that was published, or in a dry run, would be; of a skip_same the current one, or the one that was rolled back. Null where the destination is published in place, and where none was planned.
   */
  release: string | null;
  /**
   * The channel that leads to it, or would; null for the current release, and where the destination is published in place.
   */
  channel: string | null;
  /**
   * Where readers find it, or would, by public_base_url of the destination or of the channel; null if no setting says, and after a failure.
   */
  url: string | null;
  outputs_written: number;
  /**
   * Planned outputs that a release got from the one before it, by a link or a copy that the storage made.
   */
  outputs_linked: number;
  /**
   * Planned outputs whose bytes stayed as they were; with outputs_written and outputs_linked, all of them, but 0 where a rollback holds them back. Like all counts, 0 in a dry run.
   */
  outputs_kept: number;
  outputs_removed: number;
  bytes_written: number;
  bytes_linked: number;
  bytes_kept: number;
  error: PlanError | null;
}
export interface PlanCounters {
  publish_new: number;
  upsert_additive: number;
  replace_catalog: number;
  skip_same: number;
  force_replace: number;
  fail_unmanaged: number;
  fail_conflict: number;
  failed_destinations: number;
}
/**
 * A resumable upload. `run_id`, `position` and `replayed` describe its run once it is accepted.
 */
export interface PartialUpload {
  upload_id: string;
  /**
   * Number of bytes received: the offset of the next request.
   */
  offset: number;
  /**
   * Size of the archive in bytes, or null if it is not known yet.
   */
  length: number | null;
  expires_at: string;
  /**
   * Idempotency key of the upload, or null.
   */
  idempotency_key: string | null;
  /**
   * Decoded `Upload-Metadata` of the upload, or null.
   */
  metadata: {
    [k: string]: string | null;
  } | null;
  run_id: string | null;
  /**
   * As in `Accepted`.
   */
  position: number | null;
  /**
   * The key was used before, and the run is the earlier one.
   */
  replayed: boolean;
}
/**
 * Files of a bundle that must be sent.
 */
export interface MissingFiles {
  /**
   * SHA-256 of the manifest, for `Waybill-Partial`.
   */
  manifest: string;
  /**
   * Digests of files that the daemon does not keep for the pipeline, without duplicates.
   */
  missing: string[];
}
export interface Releases {
  schema_version: 1;
  kind: 'releases';
  pipeline_id: string;
  destination_id: string;
  paths: {
    /**
     * The bundle path, relative to the destination root; . for the root.
     */
    destination_path: string;
    current: string | null;
    /**
     * What the pointer leads to instead of a release; else null.
     */
    foreign_target: string | null;
    /**
     * The pointers beside the current one, sorted by name.
     */
    channels: {
      name: string;
      /**
       * What it leads to; null if its pointer is missing, or leads elsewhere.
       */
      release: string | null;
      /**
       * RFC 3339, UTC: when something was published to it last.
       */
      set_at: string;
      /**
       * RFC 3339, UTC: when it goes, unless something is published to it before.
       */
      expires_at: string;
    }[];
    /**
     * The newest first.
     */
    releases: ReleasesReleaseView[];
  }[];
  warnings: ReleasesFinding[];
}
export interface ReleasesReleaseView {
  id: string;
  /**
   * complete: all of it was written. writing: an attempt may be at work on it. abandoned: an attempt began it, and nobody is at work any more. unreadable: its catalog is invalid, or of a newer version.
   */
  state: 'complete' | 'writing' | 'abandoned' | 'unreadable';
  /**
   * RFC 3339, UTC: when its catalog was written.
   */
  written_at: string | null;
  is_current: boolean;
  /**
   * A rollback goes to it unless told otherwise.
   */
  is_last_good: boolean;
  /**
   * It was rolled back, and does not become current again by itself.
   */
  is_rolled_back: boolean;
  is_being_removed: boolean;
  /**
   * The channels that lead to it, sorted.
   */
  channels: string[];
  /**
   * The bundle that it was published from; null if its catalog does not say.
   */
  bundle: {
    path: string;
    /**
     * RFC 3339, UTC
     */
    created: string;
  } | null;
  outputs: number | null;
  bytes: number | null;
  /**
   * RFC 3339, UTC: when it became current last; null if it never was.
   */
  activated_at: string | null;
  /**
   * RFC 3339, UTC: when another became current instead; null of the current one.
   */
  left_at: string | null;
}
/**
 * One result of a validation, and its place where it has one.
 */
export interface ReleasesFinding {
  severity: 'error' | 'warning';
  code: string;
  message: string;
  file: string | null;
  pointer: string | null;
  line: number | null;
  column: number | null;
}
export interface Release {
  schema_version: 1;
  kind: 'release';
  pipeline_id: string;
  destination_id: string;
  /**
   * The bundle path, relative to the destination root; . for the root.
   */
  destination_path: string;
  release: {
    id: string;
    /**
     * complete: all of it was written. writing: an attempt may be at work on it. abandoned: an attempt began it, and nobody is at work any more. unreadable: its catalog is invalid, or of a newer version.
     */
    state: 'complete' | 'writing' | 'abandoned' | 'unreadable';
    /**
     * RFC 3339, UTC: when its catalog was written.
     */
    written_at: string | null;
    is_current: boolean;
    /**
     * A rollback goes to it unless told otherwise.
     */
    is_last_good: boolean;
    /**
     * It was rolled back, and does not become current again by itself.
     */
    is_rolled_back: boolean;
    is_being_removed: boolean;
    /**
     * The channels that lead to it, sorted.
     */
    channels: string[];
    /**
     * The bundle that it was published from; null if its catalog does not say.
     */
    bundle: {
      path: string;
      /**
       * RFC 3339, UTC
       */
      created: string;
    } | null;
    outputs: number | null;
    bytes: number | null;
    /**
     * RFC 3339, UTC: when it became current last; null if it never was.
     */
    activated_at: string | null;
    /**
     * RFC 3339, UTC: when another became current instead; null of the current one.
     */
    left_at: string | null;
    files: {
      path: string;
      kind: string;
      digest: string;
      size: number;
      url: string | null;
    }[];
  };
  /**
   * Why it could not become current; null if it could.
   */
  error: ReleaseError | null;
  warnings: ReleaseFinding[];
}
export interface ReleaseError {
  /**
   * One of the codes in docs/errors.md.
   */
  code: string;
  message: string;
  hint: string | null;
  retryable: boolean;
  findings: ReleaseFinding[];
}
/**
 * One result of a validation, and its place where it has one.
 */
export interface ReleaseFinding {
  severity: 'error' | 'warning';
  code: string;
  message: string;
  file: string | null;
  pointer: string | null;
  line: number | null;
  column: number | null;
}
export interface ReleaseDiff {
  schema_version: 1;
  kind: 'release-diff';
  pipeline_id: string;
  destination_id: string;
  /**
   * The bundle path, relative to the destination root; . for the root.
   */
  destination_path: string;
  from: string;
  /**
   * null if the release was compared with a directory.
   */
  to: string | null;
  /**
   * The directory of --dir, as given.
   */
  directory?: string;
  /**
   * Paths, sorted; relative to the bundle path.
   */
  added: string[];
  /**
   * Sorted.
   */
  removed: string[];
  /**
   * Those with other bytes or other headers, sorted.
   */
  changed: string[];
  /**
   * How many are the same.
   */
  same: number;
  warnings: ReleaseDiffFinding[];
}
/**
 * One result of a validation, and its place where it has one.
 */
export interface ReleaseDiffFinding {
  severity: 'error' | 'warning';
  code: string;
  message: string;
  file: string | null;
  pointer: string | null;
  line: number | null;
  column: number | null;
}
export interface ReleaseSwitch {
  schema_version: 1;
  kind: 'release-switch';
  action: 'rollback' | 'promote' | 'resume' | 'drop';
  dry_run: boolean;
  pipeline_id: string;
  destination_id: string;
  /**
   * The bundle path, relative to the destination root; . for the root.
   */
  destination_path: string;
  /**
   * The release that readers had, or of a drop, those of the channel; null if there was none, and after a failure.
   */
  from: string | null;
  /**
   * The release that readers have now, or in a dry run, would have; null after a failure, and of a drop.
   */
  to: string | null;
  /**
   * Only after a resume: the releases that were rolled back, and that a run may publish again.
   */
  resumed?: string[];
  is_changed: boolean;
  error: ReleaseSwitchError | null;
  warnings: ReleaseSwitchFinding[];
}
export interface ReleaseSwitchError {
  /**
   * One of the codes in docs/errors.md.
   */
  code: string;
  message: string;
  hint: string | null;
  retryable: boolean;
  findings: ReleaseSwitchFinding[];
}
/**
 * One result of a validation, and its place where it has one.
 */
export interface ReleaseSwitchFinding {
  severity: 'error' | 'warning';
  code: string;
  message: string;
  file: string | null;
  pointer: string | null;
  line: number | null;
  column: number | null;
}
/**
 * Pipelines of a token and their state.
 */
export interface PipelineList {
  pipelines: {
    pipeline_id: string;
    source: {
      backend: string;
    };
    destinations: {
      destination_id: string;
      backend: string;
      mapping: 'preserve_relative' | 'fixed';
      workflow: 'additive' | 'replacement';
      layout: 'in_place' | 'releases';
      public_base_url: string | null;
      /**
       * Maximum rate of published files, in bytes per second, or null if there is no limit.
       */
      max_rate: number | null;
    }[];
    /**
     * null without a schedule.
     */
    schedule: {
      /**
       * Cron pattern: five fields, or a name such as @daily.
       */
      cron: string;
      /**
       * IANA time zone.
       */
      timezone: string;
      catch_up: 'none' | 'once';
    } | null;
    /**
     * Whether a change of the source starts a run.
     */
    watch: boolean;
    /**
     * Time of the next scheduled run, including jitter. If the pipeline is paused at that time, the run is skipped.
     */
    next_run: string | null;
    /**
     * Number of waiting runs.
     */
    waiting: number;
    paused: Pause;
    /**
     * Id of the active run.
     */
    running: string | null;
    /**
     * Record of the most recently accepted run, if it is retained.
     */
    last_run: RunRecord | null;
    /**
     * The most recent run that succeeded.
     */
    last_success: {
      run_id: string;
      finished_at: string;
    } | null;
  }[];
}
