import type { Config } from '../../core/config/config.ts';
import type { Disk } from '../../core/lib/disk.ts';
import type { YieldToEventLoop } from '../../core/lib/event-loop.ts';
import { closeAll } from '../../core/lib/lifecycle.ts';
import type { Occurrence } from '../../core/notify/event.ts';
import { noTracing } from '../../core/tracing/open-tracing.ts';
import type { JobResult, PublishJob } from '../queue/job.ts';
import type { JobProcessor, JobQueue } from '../queue/job-queue.ts';
import type { QueueOptions } from '../queue/queue-options.ts';
import { RunEventBuffer } from '../queue/run-events.ts';
import { type RunObserver, tracedRuns, tracedWaits } from '../queue/run-observer.ts';
import type { StagingArea } from '../staging/staged-directories.ts';
import { type PublishingPoolOptions, PublishingThreads } from '../threads/publishing-pool.ts';
import { queueSettings, type RunSettings, runSettings } from '../threads/run-settings.ts';
import type { HealthCheck } from './health-checks.ts';

export interface CoordinatorOptions extends Omit<PublishingPoolOptions, 'settings'> {
  /** The configuration at startup. */
  config: Config;
  /**
   * Gives other work a chance to run before upload directories are created or removed. Default: does not
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

/** The options of the queue that do not depend on its kind. */
export type CommonQueueOptions = Omit<QueueOptions, 'onExpire' | 'discard'>;

/** The queue and the staged files of a process. They depend on the kind of queue. */
export interface QueueHost {
  readonly queue: JobQueue;
  readonly staging: StagingArea;
  readonly checks: readonly HealthCheck[];
  /** Reports whether notifiers should receive the event. */
  isReported(occurrence: Occurrence): boolean;
  /** Calls `publish` with the job, whose bundle may first have to be brought to this host. */
  process(job: PublishJob, publish: (job: PublishJob) => Promise<JobResult>): Promise<JobResult>;
  /** Opens the queues of these pipelines. Throws `queue_unavailable`. */
  addPipelines(pipelineIds: readonly string[]): Promise<void>;
  /** Clears staging. Called after the queue and the threads are closed. */
  close(): Promise<void>;
}

/**
 * Connects the queue, the worker threads, and the runs' staged directories, so that accepted uploads get
 * published. Create one with `openCoordinator`.
 */
export class Coordinator {
  readonly queue: JobQueue;
  readonly staging: StagingArea;
  /** Checks for everything that has to work for uploads to be accepted and published. */
  readonly checks: readonly HealthCheck[];
  /**
   * The threads of this process, which publish to destinations and read from them. They work with any kind of
   * queue.
   */
  readonly threads: PublishingThreads;
  readonly #options: CoordinatorOptions;
  readonly #settings: RunSettings;
  readonly #events: RunEventBuffer;
  readonly #host: QueueHost;

  private constructor(
    options: CoordinatorOptions,
    settings: RunSettings,
    events: RunEventBuffer,
    host: QueueHost,
  ) {
    this.queue = host.queue;
    this.staging = host.staging;
    this.checks = host.checks;
    this.#options = options;
    this.#settings = settings;
    this.#events = events;
    this.#host = host;
    const notify: CoordinatorOptions['notify'] = (occurrence, trace) => events.add(occurrence, trace);
    this.threads = new PublishingThreads({ ...options, settings, notify });
  }

  /** Throws the errors of `openHost`. */
  static async open(
    options: CoordinatorOptions,
    openHost: (common: CommonQueueOptions) => QueueHost | Promise<QueueHost>,
  ): Promise<Coordinator> {
    const { config, clock, log, notify } = options;
    const settings = runSettings(config);
    let isReported: QueueHost['isReported'] = () => true;
    const events = new RunEventBuffer((occurrence, trace) => {
      if (isReported(occurrence)) notify(occurrence, trace);
    });
    const host = await openHost({
      ...queueSettings(settings),
      clock,
      log,
      onOutcome: (job, next) => events.decided(job, next),
    });
    isReported = (occurrence) => host.isReported(occurrence);
    return new Coordinator(options, settings, events, host);
  }

  async start(): Promise<void> {
    const { observer, tracing: { tracer } = noTracing } = this.#options;
    const publish: JobProcessor = (job, context) => {
      this.#events.begin(job.runId);
      return this.#host.process(job, (local) => this.threads.publish(local, context));
    };
    await this.queue.start(tracedRuns(publish, tracer), tracedWaits(observer, tracer));
  }

  /**
   * Applies the pipelines, secrets directory, and notifiers from a new configuration to all runs that start
   * from now on. All other settings stay as they were at startup. If a pipeline was removed, runs that it has
   * already accepted still use its old settings. If new pipelines cannot be registered in Redis, throws a
   * `queue_unavailable` error and changes nothing.
   */
  async adopt(config: Config): Promise<void> {
    const before = this.#settings.get();
    // Do this first, because a new pipeline may start a run as soon as its queue is open.
    this.#settings.adopt(config);
    try {
      await this.#host.addPipelines(config.pipelines.map(({ id }) => id));
    } catch (error) {
      this.#settings.adopt(before);
      throw error;
    }
  }

  /** Closes the queue in the same way as `JobQueue.close`, then stops the threads and clears staging. */
  async close(timeoutMs: number): Promise<{ unfinished: string[] }> {
    let closed: { unfinished: string[] } = { unfinished: [] };
    await closeAll(
      async () => (closed = await this.queue.close(timeoutMs)),
      () => this.threads.close(),
      () => this.#host.close(),
    );
    return closed;
  }
}
