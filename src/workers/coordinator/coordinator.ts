import type { Config } from '../../core/config/config.ts';
import type { Disk } from '../../core/lib/disk.ts';
import type { YieldToEventLoop } from '../../core/lib/event-loop.ts';
import type { JobQueue } from '../queue/job-queue.ts';
import type { RunObserver } from '../queue/run-observer.ts';
import type { StagingArea } from '../staging/staged-directories.ts';
import type { PublishingPoolOptions, PublishingThreads } from '../threads/publishing-pool.ts';
import type { HealthCheck } from './health-checks.ts';

/**
 * Passes accepted uploads to worker threads. Combines the queue, the threads and the runs' staged
 * directories. Created by `openCoordinator`.
 */
export interface Coordinator {
  readonly queue: JobQueue;
  readonly staging: StagingArea;
  /** Conditions that must hold to accept and publish uploads. */
  readonly checks: readonly HealthCheck[];
  /** The threads of this process, which publish and read destinations regardless of the kind of queue. */
  readonly threads: PublishingThreads;
  /** Starts publishing. */
  start(): Promise<void>;
  /**
   * Applies this configuration's pipelines, secrets directory and notifiers to runs that start after the
   * call. Other settings keep their values from startup. Accepted runs of a removed pipeline keep using its
   * last settings. Throws `queue_unavailable` and changes nothing if new pipelines cannot be registered in
   * Redis.
   */
  adopt(config: Config): Promise<void>;
  /** Closes the queue like `JobQueue.close`, ends the threads, and clears staging. */
  close(timeoutMs: number): Promise<{ unfinished: string[] }>;
}

export interface CoordinatorOptions extends Omit<PublishingPoolOptions, 'settings'> {
  /** The configuration at startup. */
  config: Config;
  /**
   * Called before upload directories are created or removed, to share the event loop. Default: does not
   * yield.
   */
  yieldToEventLoop?: YieldToEventLoop;
  /** The disk that holds upload directories. Default: calls block the process. */
  disk?: Disk;
  /** Notified when a thread starts or ends a run. */
  observer?: RunObserver;
  /** See `EventStore.flushed`. */
  flushed?: () => Promise<void>;
}
