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
  /** Maximum number of uploads in progress and waiting runs, across all hosts. */
  queueSize: number;
  /** The same limit for one pipeline. If null, only `queueSize` applies. Default: null. */
  maxWaitingOf?: (pipelineId: string) => number | null;
  /** Number of concurrent jobs on this host. */
  maxConcurrency: number;
  /** How long a finished run is kept, in milliseconds. */
  retentionMs: number;
  /**
   * A process that has been silent for this many milliseconds counts as dead. Other hosts then take its runs,
   * and its uploads in progress are forgotten.
   */
  workerTimeoutMs: number;
  shared: SharedBundles;
  /** Authenticates jobs. Default: no authentication. */
  seal?: JobSeal;
  /**
   * Called when a finished run is forgotten, on whichever host notices first. If that host dies before the
   * call completes, another host calls it again.
   */
  onExpire: (job: PublishJob) => Promise<void>;
  /**
   * Called when a job no longer needs its staged files but its record is kept. Default: no-op. If the call
   * fails, or this host dies first, another host removes the files from shared staging.
   */
  discard?: (job: PublishJob) => Promise<void>;
  /** How long bundles of ended runs stay staged. Default: as long as their records are kept. */
  keep?: KeepLimits;
  /** How failed runs are retried. Default: never. */
  retries?: RetriesOf;
  /**
   * Called before the outcome of an attempt is recorded, and when a run ends while it waits for its next
   * attempt. `next` is the run's new record.
   */
  onOutcome?: (job: PublishJob, next: RunRecord) => void;
  /**
   * Resolves once all events so far are stored outside this process. A run ends only after that. Never
   * rejects. Default: resolves immediately.
   */
  flushed?: () => Promise<void>;
}

/** Moves staged bundles from the host that received them to the hosts that publish them. */
export interface SharedBundles {
  /**
   * Stores the staged bundle as `name` in a location that every host can reach. Resolves with the job to
   * queue.
   */
  share(job: PublishJob, name: string): Promise<PublishJob>;
  /** Removes the archive with this name. Succeeds if it does not exist. */
  remove(name: string): Promise<void>;
}

/** Returns the options with every default filled in. */
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
