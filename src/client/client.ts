import type { Parts, Pieces, Upload } from './archive.ts';
import { type BundleOptions, prepareUpload } from './bundle.ts';
import { Connection, type ConnectionOptions } from './connection.ts';
import { type Followed, followRuns } from './follow.ts';
import type {
  PipelineList,
  Plan,
  Release,
  ReleaseDiff,
  Releases,
  ReleaseSwitch,
  RunRecord,
} from './generated/api-types.ts';
import { type PushOptions, type PushOutcome, pushUpload, tryBundle } from './push.ts';
import {
  type ActivateOptions,
  activateRelease,
  compareReleases,
  listReleases,
  type ReleasePlace,
  showRelease,
} from './releases.ts';
import {
  type AcceptedRun,
  cancelRun,
  listPipelines,
  listRuns,
  rerunRun,
  retryRun,
  type RunFilter,
  showRun,
  startRun,
  waitForRun,
  type WaitOptions,
} from './runs.ts';
import type { ExchangeForm, IdTokenOptions, IssuedToken, TokenSource } from './token-source.ts';
import type { MissingPart, Resumable, UploadOptions } from './upload-bundle.ts';

export type {
  AcceptedRun,
  ActivateOptions,
  BundleOptions,
  ConnectionOptions,
  ExchangeForm,
  Followed,
  IdTokenOptions,
  IssuedToken,
  MissingPart,
  Parts,
  Pieces,
  Plan,
  PushOptions,
  PushOutcome,
  Release,
  ReleaseDiff,
  ReleasePlace,
  Releases,
  ReleaseSwitch,
  Resumable,
  RunFilter,
  RunRecord,
  TokenSource,
  Upload,
  UploadOptions,
  WaitOptions,
};
export { exchangedToken } from './token-source.ts';
export type { WaybillError } from '../core/lib/errors.ts';

export type Pipeline = PipelineList['pipelines'][number];

/**
 * A client for a waybill daemon. Transient failures are retried as configured in `ConnectionOptions`. All
 * other failures throw a `WaybillError` with a `code` from docs/errors.md.
 */
export interface Client {
  /**
   * Publishes a bundle and waits for its run. The bundle is a directory, a tar or tar.gz file, or an upload
   * that you create yourself. No matter how often this is retried or called again, there is only one run.
   * `run.status` tells you how it ended.
   */
  push(
    pipeline: string,
    bundle: string | Upload,
    options?: PushOptions & BundleOptions,
  ): Promise<PushOutcome>;
  /** Reports what would happen if the bundle were published. */
  plan(
    pipeline: string,
    bundle: string | Upload,
    options?: BundleOptions & Pick<PushOptions, 'channel'>,
  ): Promise<Plan>;
  pipelines(): Promise<Pipeline[]>;
  runs: {
    /** Lists the newest runs first, up to `limit` of them (default: 100). */
    list(filter?: RunFilter, limit?: number): AsyncGenerator<RunRecord>;
    show(runId: string): Promise<RunRecord>;
    /** Starts a run of a pipeline that reads a source. */
    start(pipeline: string, options?: { channel?: string | undefined }): Promise<AcceptedRun>;
    /** Waits until the run has finished. */
    wait(runId: string, options?: WaitOptions): Promise<RunRecord>;
    /** Yields the current record of each run, and then a new one after every change. */
    follow(followed: Followed): AsyncGenerator<RunRecord>;
    cancel(runId: string): Promise<RunRecord>;
    /** If the run is waiting to be retried, starts the next attempt now. */
    retry(runId: string): Promise<RunRecord>;
    /**
     * Repeats a finished run with its original bundle, which the daemon still has. To wait for it, use
     * `wait`.
     */
    rerun(runId: string): Promise<AcceptedRun>;
  };
  /** A release is named by its id, a channel, or `current`. */
  releases: {
    list(place: ReleasePlace): Promise<Releases>;
    show(place: ReleasePlace, release: string): Promise<Release>;
    diff(place: ReleasePlace, from: string, to: string): Promise<ReleaseDiff>;
    /** Makes a release current, as a promotion or a rollback. */
    activate(place: ReleasePlace, release: string, options?: ActivateOptions): Promise<ReleaseSwitch>;
  };
}

/** Creates a client. It does not connect yet. Throws a `usage` error if the URL is invalid. */
export function connect(options: ConnectionOptions): Client {
  const connection = new Connection(options);
  return {
    async push(pipeline, bundle, options = {}) {
      const upload = typeof bundle === 'string' ? await prepareUpload(bundle, options) : bundle;
      return pushUpload(connection, pipeline, upload, options);
    },
    plan: async (pipeline, bundle, packing = {}) =>
      tryBundle(
        connection,
        pipeline,
        typeof bundle === 'string' ? await prepareUpload(bundle, packing) : bundle,
        packing,
      ),
    pipelines: () => listPipelines(connection),
    runs: {
      list: (filter = {}, limit = 100) => listRuns(connection, filter, limit),
      show: (runId) => showRun(connection, runId),
      start: (pipeline, options) => startRun(connection, pipeline, options),
      wait: (runId, waiting) => waitForRun(connection, runId, waiting),
      follow: (followed) => followRuns(connection, followed),
      cancel: (runId) => cancelRun(connection, runId),
      retry: (runId) => retryRun(connection, runId),
      rerun: (runId) => rerunRun(connection, runId),
    },
    releases: {
      list: (place) => listReleases(connection, place),
      show: (place, release) => showRelease(connection, place, release),
      diff: (place, from, to) => compareReleases(connection, place, from, to),
      activate: (place, release, options) => activateRelease(connection, place, release, options),
    },
  };
}

/** Shorthand for `connect(options).push(pipeline, bundle, options)`. */
export async function push(
  options: ConnectionOptions & PushOptions & BundleOptions & { pipeline: string; bundle: string | Upload },
): Promise<PushOutcome> {
  const { pipeline, bundle, ...others } = options;
  return connect(others).push(pipeline, bundle, others);
}
