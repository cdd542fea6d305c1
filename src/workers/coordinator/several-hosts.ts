import type { Config } from '../../core/config/config.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { neverYield } from '../../core/lib/event-loop.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import { storageOpener } from '../../core/storage/open-storage.ts';
import { noTracing } from '../../core/tracing/open-tracing.ts';
import type { BullmqQueueOptions } from '../bullmq/bullmq-options.ts';
import { BullmqQueue } from '../bullmq/bullmq-queue.ts';
import { jobSeal, signingKeys } from '../bullmq/job-seal.ts';
import { redisServer } from '../bullmq/redis-client.ts';
import type { JobResult, PublishJob } from '../queue/job.ts';
import type { JobProcessor } from '../queue/job-queue.ts';
import { RunEventBuffer } from '../queue/run-events.ts';
import { tracedRuns, tracedWaits } from '../queue/run-observer.ts';
import { openScratch } from '../staging/claimed-directory.ts';
import { openSharedStaging, type SharedStaging } from '../staging/shared-staging.ts';
import { type StagingArea, uploadDirectories } from '../staging/staged-directories.ts';
import { provedAtMost } from '../staging/staging-check.ts';
import { PublishingThreads } from '../threads/publishing-pool.ts';
import { queueSettings, type RunSettings, runSettings } from '../threads/run-settings.ts';
import type { Coordinator, CoordinatorOptions } from './coordinator.ts';
import { type HealthCheck, queueCheck, stagingChecks } from './health-checks.ts';

// Shared staging may be remote and may charge for every request, so don't check it too often.
const checkSharedEveryMs = 10_000;

/**
 * The coordinator for one host out of several. They share a queue in Redis, and pass bundles to each other
 * through shared staging.
 *
 * The process that receives an upload first writes it to its own scratch directory. After validation, the
 * upload is copied to shared staging as a single archive. The worker extracts that archive into its own
 * scratch directory, and deletes it there after the run.
 */
export class BullmqCoordinator implements Coordinator {
  readonly queue: BullmqQueue;
  readonly staging: StagingArea;
  readonly checks: readonly HealthCheck[];
  readonly threads: PublishingThreads;
  readonly #options: CoordinatorOptions;
  readonly #settings: RunSettings;
  readonly #directories: Directories;
  readonly #news: RunEventBuffer;

  private constructor(
    options: CoordinatorOptions,
    settings: RunSettings,
    directories: Directories,
    queue: BullmqQueue,
    eventBuffer: RunEventBuffer,
  ) {
    this.queue = queue;
    this.staging = directories.uploads;
    this.checks = checksOf(options, queue, directories);
    this.#options = options;
    this.#settings = settings;
    this.#directories = directories;
    this.#news = eventBuffer;
    const notify: CoordinatorOptions['notify'] = (occurrence, trace) => eventBuffer.add(occurrence, trace);
    this.threads = new PublishingThreads({ ...options, settings, notify });
  }

  /**
   * Connects to Redis and checks both staging areas. Throws `secrets_invalid` if the Redis URL is missing or
   * malformed, `queue_unavailable` if Redis is unreachable, and `config_invalid` if Redis, shared staging, or
   * the scratch directory can't be used.
   */
  static async open(options: CoordinatorOptions & { secrets: Secrets }): Promise<BullmqCoordinator> {
    const { config, clock, log, secrets } = options;
    const { staging, queue: redis } = config.server;
    if (redis.driver !== 'bullmq' || staging.shared === null)
      throw new WaybillError('internal_error', 'the coordinator of several hosts needs the bullmq driver');
    const server = redisServer(redis, secrets);
    const seal = jobSeal(signingKeys(redis.signingKeyEnvs, secrets));
    const directories = await openDirectories(options, staging.shared);
    const settings = runSettings(config);
    let queue: BullmqQueue | undefined;
    // Don't report the failure of an interrupted run, since another worker will repeat the run.
    const eventBuffer = new RunEventBuffer((occurrence, trace) => {
      const { type, data } = occurrence;
      const isFailure = type === 'bundle.publish_failed' || type === 'run.retry_scheduled';
      if (!isFailure || queue?.isInterrupted(data.run_id ?? '') !== true) options.notify(occurrence, trace);
    });
    try {
      queue = await BullmqQueue.open({
        ...queueSettings(settings),
        ...bundlesIn(directories),
        redis: { ...server, prefix: redis.prefix },
        seal,
        clock,
        log,
        pipelineIds: config.pipelines.map(({ id }) => id),
        workerTimeoutMs: redis.workerTimeoutMs,
        onOutcome: (job, next) => eventBuffer.decided(job, next),
        flushed: async () => options.flushed?.(),
      });
    } catch (error) {
      await directories.close();
      throw error;
    }
    return new BullmqCoordinator(options, settings, directories, queue, eventBuffer);
  }

  async start(): Promise<void> {
    const { observer, tracing: { tracer } = noTracing } = this.#options;
    const publish: JobProcessor = (job, context) => this.#publish(job, context);
    await this.queue.start(tracedRuns(publish, tracer), tracedWaits(observer, tracer));
  }

  async adopt(config: Config): Promise<void> {
    const before = this.#settings.get();
    // Do this first, because a new pipeline may start a run as soon as its queue is open.
    this.#settings.adopt(config);
    try {
      await this.queue.addPipelines(config.pipelines.map(({ id }) => id));
    } catch (error) {
      this.#settings.adopt(before);
      throw error;
    }
  }

  async close(timeoutMs: number): Promise<{ unfinished: string[] }> {
    const closed = await this.queue.close(timeoutMs);
    await this.threads.close();
    await this.#directories.close();
    return closed;
  }

  async #publish(job: PublishJob, context: Parameters<JobProcessor>[1]): Promise<JobResult> {
    this.#news.begin(job.runId);
    if (job.staged === null) return this.threads.publish(job, context);
    const directory = await this.staging.create();
    try {
      return await this.threads.publish({ ...job, staged: directory }, context);
    } finally {
      await this.staging
        .discard(directory)
        .catch((error: unknown) =>
          this.#options.log.warn(
            { run_id: job.runId, err: error },
            'a scratch directory could not be removed',
          ),
        );
    }
  }
}

interface Directories {
  shared: SharedStaging;
  /** Absolute path of this process's scratch directory. */
  scratch: string;
  /** Manages the upload directories in `scratch`. */
  uploads: StagingArea;
  close(): Promise<void>;
}

async function openDirectories(
  {
    config,
    clock,
    log,
    secrets,
    disk,
    yieldToEventLoop = neverYield,
  }: CoordinatorOptions & { secrets: Secrets },
  location: Parameters<typeof openSharedStaging>[0],
): Promise<Directories> {
  const shared = await openSharedStaging(location, storageOpener({ clock, log, secrets }));
  const scratch = await openScratch(config.server.staging.directory, clock);
  return {
    shared,
    scratch: scratch.directory,
    uploads: uploadDirectories(scratch.directory, yieldToEventLoop, disk),
    close: async () => {
      await Promise.all([scratch.close(), shared.close()]);
    },
  };
}

/** Lets the queue copy bundles to shared staging and remove them from there. */
function bundlesIn({
  shared,
  uploads,
}: Directories): Pick<BullmqQueueOptions, 'shared' | 'onExpire' | 'discard'> {
  const unshare = async (job: PublishJob): Promise<void> => {
    if (job.staged !== null && job.archive !== undefined) await shared.remove(job.archive.name);
  };
  return {
    onExpire: unshare,
    discard: unshare,
    shared: {
      share: async (job, name) => {
        if (job.staged === null) return job;
        const inShared = await shared.share(job, name);
        await uploads.discard(job.staged);
        return inShared;
      },
      remove: (name) => shared.remove(name),
    },
  };
}

function checksOf(
  { clock, requireAnswers }: CoordinatorOptions,
  queue: BullmqQueue,
  { scratch, shared }: Directories,
): HealthCheck[] {
  return [
    queueCheck(queue, {
      remedy:
        'check that Redis runs, has free memory and is reachable from this host; the log has its answer',
      keeps: () => queue.prove(),
    }),
    ...stagingChecks(scratch, { clock, requireAnswers }),
    {
      name: 'shared_staging',
      silent: 'staging_unavailable',
      remedy: 'check that the storage of server.staging.shared answers, has free space and is writable',
      prove: provedAtMost(clock, checkSharedEveryMs, () => shared.check()),
    },
  ];
}
