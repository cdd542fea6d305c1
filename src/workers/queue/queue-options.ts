import type { Clock } from '../../core/lib/clock.ts';
import type { Log } from '../../core/lib/log.ts';
import type { RetentionLimits } from './bundle-retention.ts';
import type { PublishJob } from './job.ts';
import type { RunRecord } from './run-record.ts';
import { noRetries, type RetrySettingsOf } from './run-retry.ts';

/** The options that all queues have in common. */
export interface QueueOptions {
  clock: Clock;
  log: Log;
  /**
   * The maximum number of uploads in progress plus waiting runs, across all hosts. Active runs do not count.
   */
  queueSize: number;
  /** The same limit for a single pipeline. null means that only `queueSize` applies. Default: null. */
  maxWaitingOf?: (pipelineId: string) => number | null;
  /** The maximum number of concurrent jobs on this host. */
  maxConcurrency: number;
  /** How long finished runs are kept, in milliseconds. */
  retentionMs: number;
  /** How long the bundles of finished runs stay staged. Default: as long as their records. */
  keep?: RetentionLimits;
  /** How failed runs are retried. Default: never. */
  retries?: RetrySettingsOf;
  /**
   * Called when a finished run is deleted. The job's staged files are no longer needed then. In a queue of
   * several hosts, the first host to notice calls it. If that host dies halfway through, another host calls
   * it again.
   */
  onExpire: (job: PublishJob) => Promise<void>;
  /**
   * Called when a job's staged files are no longer needed but its record is kept. Default: no-op. In a queue
   * of several hosts, another host removes the files from shared staging if this fails or the host dies
   * first.
   */
  discard?: (job: PublishJob) => Promise<void>;
  /**
   * Called before the outcome of an attempt is recorded, and when a run ends while waiting for its next
   * attempt. `next` is the record that is about to be saved.
   */
  onOutcome?: (job: PublishJob, next: RunRecord) => void;
}

export function withDefaults<Options extends QueueOptions>(
  options: Options,
): Options & Required<QueueOptions> {
  return {
    maxWaitingOf: () => null,
    keep: { keepMs: options.retentionMs, maxBundles: 1e9, maxBytes: 1e15 },
    retries: noRetries,
    discard: async () => undefined,
    onOutcome: () => undefined,
    ...options,
  };
}
