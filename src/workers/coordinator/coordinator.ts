import type { Config } from '../../core/config/config.ts';
import type { Breathe } from '../../core/lib/breath.ts';
import type { Disk } from '../../core/lib/disk.ts';
import type { RunResult } from '../../core/publish/results/result.ts';
import type { PublishJob } from '../queue/job.ts';
import type { JobQueue } from '../queue/job-queue.ts';
import type { RunObserver } from '../queue/run-observer.ts';
import type { StagingArea } from '../staging/staged-directories.ts';
import type { LookAnswer, LookRequest } from '../threads/look-request.ts';
import type { ThreadStats } from '../threads/pool.ts';
import type { PublishingPoolOptions } from '../threads/publishing-pool.ts';
import type { ReleasesAnswer, ReleasesRequest } from '../threads/releases-request.ts';
import type { HealthCheck } from './health-checks.ts';

/**
 * Accepted uploads on their way to worker threads: the queue, the threads, and the staged directories that
 * belong to runs. Made by `openCoordinator`.
 */
export interface Coordinator {
  readonly queue: JobQueue;
  readonly staging: StagingArea;
  /** What has to hold for uploads to be taken and published. */
  readonly checks: readonly HealthCheck[];
  threads(): ThreadStats;
  /**
   * Decides on a thread what publishing a bundle that is staged on this machine would do, or what the source
   * of a pipeline holds, without changing anything. Throws as `WorkerPool.process`.
   */
  plan(job: PublishJob, signal: AbortSignal): Promise<RunResult>;
  /**
   * Looks at the releases of a destination on a thread of this process, or switches between them, whatever
   * the queue. Throws as `ReleasesPool.ask`.
   */
  releases(request: ReleasesRequest, signal: AbortSignal): Promise<ReleasesAnswer>;
  /**
   * Reads what is published at a destination on a thread of this process. Throws as `LooksPool.ask`.
   */
  look(request: LookRequest, signal: AbortSignal): Promise<LookAnswer>;
  /** Begins to publish. */
  start(): Promise<void>;
  /**
   * Runs that begin from now on begin with this configuration: its pipelines, secrets directory and
   * notifiers; all else stays as it was at the start. A pipeline that it lacks keeps the settings that it had
   * for the runs that were accepted. Throws `queue_unavailable`, and leaves everything as it was then, if
   * Redis cannot be told of new pipelines.
   */
  adopt(config: Config): Promise<void>;
  /** Closes the queue as `JobQueue.close` does, ends the threads, and clears staging. */
  close(timeoutMs: number): Promise<{ unfinished: string[] }>;
}

export interface CoordinatorOptions extends Omit<PublishingPoolOptions, 'settings'> {
  /** As it is at the start. */
  config: Config;
  /** Asked before upload directories are made and removed; by default nobody else needs the event loop. */
  breathe?: Breathe;
  /** That of upload directories; by default it is waited for by everybody. */
  disk?: Disk;
  /** Notified of each run that a thread begins and ends. */
  observer?: RunObserver;
  /** As `EventKeeping.told`. */
  told?: (redis?: string) => Promise<void>;
}
