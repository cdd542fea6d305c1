import type { Clock } from '../../core/lib/clock.ts';
import type { Log } from '../../core/lib/log.ts';
import type { PublishJob } from '../queue/job.ts';
import type { KeepLimits } from '../queue/kept-bundles.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { noRetries, type RetriesOf } from '../queue/run-retry.ts';
import type { JobSeal } from './job-seal.ts';
import type { RedisServer } from './redis-client.ts';

export interface BullmqQueueOptions {
  clock: Clock;
  log: Log;
  redis: RedisServer & { prefix: string };
  pipelineIds: readonly string[];
  /** The maximum number of uploads in progress plus waiting runs, across all hosts. */
  queueSize: number;
  /** The same limit for a single pipeline. null means that only `queueSize` applies. Default: null. */
  maxWaitingOf?: (pipelineId: string) => number | null;
  /** The maximum number of concurrent jobs on this host. */
  maxConcurrency: number;
  /** How long finished runs are kept, in milliseconds. */
  retentionMs: number;
  /**
   * A process that doesn't report for this many milliseconds is considered dead. Other hosts then take over
   * its runs and drop its unfinished uploads.
   */
  workerTimeoutMs: number;
  shared: SharedBundles;
  /** Signs jobs and verifies their signatures. Default: jobs aren't signed. */
  seal?: JobSeal;
  /**
   * Called when a finished run is deleted, on whichever host gets to it first. If that host dies halfway
   * through, another host calls it again.
   */
  onExpire: (job: PublishJob) => Promise<void>;
  /**
   * Called when a job's staged files are no longer needed but its record is kept. Default: no-op. If this
   * fails or the host dies first, another host removes the files from shared staging.
   */
  discard?: (job: PublishJob) => Promise<void>;
  /** How long the bundles of finished runs stay staged. Default: as long as their records. */
  keep?: KeepLimits;
  /** How failed runs are retried. Default: never. */
  retries?: RetriesOf;
  /**
   * Called before the outcome of an attempt is recorded, and when a run ends while waiting for its next
   * attempt. `next` is the record that is about to be saved.
   */
  onOutcome?: (job: PublishJob, next: RunRecord) => void;
  /**
   * Resolves once all events so far have been stored outside this process. The queue doesn't end a run until
   * then. Never rejects. Default: resolves immediately.
   */
  flushed?: () => Promise<void>;
}

/** Moves staged bundles from the host that received them to whichever host publishes them. */
export interface SharedBundles {
  /**
   * Copies the staged bundle to a location that all hosts can reach, under the given name. Resolves with the
   * job to queue.
   */
  share(job: PublishJob, name: string): Promise<PublishJob>;
  /** Removes the archive with this name. It's not an error if it doesn't exist. */
  remove(name: string): Promise<void>;
}

/** Fills in the defaults. */
export function resolveOptions(options: BullmqQueueOptions) {
  return {
    ...options,
    discard: options.discard ?? (async () => undefined),
    keep: options.keep ?? { keepMs: options.retentionMs, maxBundles: 1e9, maxBytes: 1e15 },
    retries: options.retries ?? noRetries,
    onOutcome: options.onOutcome ?? (() => undefined),
    flushed: options.flushed ?? (async () => undefined),
  };
}

export type ResolvedOptions = ReturnType<typeof resolveOptions>;
