import type { Config } from '../../core/config/config.ts';
import type { Disk } from '../../core/lib/disk.ts';
import type { YieldToEventLoop } from '../../core/lib/event-loop.ts';
import type { JobQueue } from '../queue/job-queue.ts';
import type { RunObserver } from '../queue/run-observer.ts';
import type { StagingArea } from '../staging/staged-directories.ts';
import type { PublishingPoolOptions, PublishingThreads } from '../threads/publishing-pool.ts';
import type { HealthCheck } from './health-checks.ts';

/**
 * Connects the queue, the worker threads, and the runs' staged directories, so that accepted uploads get
 * published. Create one with `openCoordinator`.
 */
export interface Coordinator {
  readonly queue: JobQueue;
  readonly staging: StagingArea;
  /** Checks for everything that has to work for uploads to be accepted and published. */
  readonly checks: readonly HealthCheck[];
  /**
   * The threads of this process, which publish to destinations and read from them. They work with any kind of
   * queue.
   */
  readonly threads: PublishingThreads;
  /** Starts publishing. */
  start(): Promise<void>;
  /**
   * Applies the pipelines, secrets directory, and notifiers from a new configuration to all runs that start
   * from now on. All other settings stay as they were at startup. If a pipeline was removed, runs that it has
   * already accepted still use its old settings. If new pipelines can't be registered in Redis, throws a
   * `queue_unavailable` error and changes nothing.
   */
  adopt(config: Config): Promise<void>;
  /** Closes the queue in the same way as `JobQueue.close`, then stops the threads and clears staging. */
  close(timeoutMs: number): Promise<{ unfinished: string[] }>;
}

export interface CoordinatorOptions extends Omit<PublishingPoolOptions, 'settings'> {
  /** The configuration at startup. */
  config: Config;
  /**
   * Gives other work a chance to run before upload directories are created or removed. Default: doesn't
   * yield.
   */
  yieldToEventLoop?: YieldToEventLoop;
  /** The disk that upload directories are on. By default, disk calls block the process. */
  disk?: Disk;
  /** Throws if uploads are refused because that disk does not respond. */
  requireAnswers?: () => void;
  /** Notified whenever a thread starts or finishes a run. */
  observer?: RunObserver;
  /** See `EventStore.flushed`. */
  flushed?: () => Promise<void>;
}
