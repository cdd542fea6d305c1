import { WaybillError } from '../../core/lib/errors.ts';
import { neverYield } from '../../core/lib/event-loop.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import { storageOpener } from '../../core/storage/open-storage.ts';
import type { BullmqQueueOptions } from '../bullmq/bullmq-options.ts';
import { BullmqQueue } from '../bullmq/bullmq-queue.ts';
import { jobSeal, signingKeys } from '../bullmq/job-seal.ts';
import { redisServer } from '../bullmq/redis-client.ts';
import type { PublishJob } from '../queue/job.ts';
import { openScratch } from '../staging/claimed-directory.ts';
import { openSharedStaging, type SharedStaging } from '../staging/shared-staging.ts';
import { createStagingArea, type StagingArea } from '../staging/staged-directories.ts';
import { cachedCheck } from '../staging/staging-check.ts';
import type { CommonQueueOptions, CoordinatorOptions, QueueHost } from './coordinator.ts';
import { type HealthCheck, queueCheck, stagingChecks } from './health-checks.ts';

// Shared staging may be remote and may charge for every request, so do not check it too often.
const checkSharedEveryMs = 10_000;

/**
 * Opens the queue of one host out of several. They share a queue in Redis, and pass bundles to each other
 * through shared staging.
 *
 * The process that receives an upload first writes it to its own scratch directory. After validation, the
 * upload is copied to shared staging as a single archive. The worker extracts that archive into its own
 * scratch directory, and deletes it there after the run.
 *
 * Throws `secrets_invalid` if the Redis URL is missing or malformed, `queue_unavailable` if Redis is
 * unreachable, and `config_invalid` if Redis, shared staging, or the scratch directory cannot be used.
 */
export async function multiHost(options: HostOptions, common: CommonQueueOptions): Promise<QueueHost> {
  const { config, secrets, log, flushed } = options;
  const { staging, queue: redis } = config.server;
  if (redis.driver !== 'bullmq' || staging.shared === null)
    throw new WaybillError('internal_error', 'the coordinator of several hosts needs the bullmq driver');
  const server = redisServer(redis, secrets);
  const seal = jobSeal(signingKeys(redis.signingKeyEnvs, secrets));
  const directories = await openDirectories(options, staging.shared);
  const opening = BullmqQueue.open({
    ...common,
    ...bundlesIn(directories),
    redis: server,
    seal,
    pipelineIds: config.pipelines.map(({ id }) => id),
    workerTimeoutMs: redis.workerTimeoutMs,
    flushed: async () => flushed?.(),
  });
  const queue = await opening.catch(async (error: unknown) => {
    await directories.close();
    throw error;
  });
  const { uploads } = directories;
  return {
    queue,
    staging: uploads,
    checks: checksOf(options, queue, directories),
    // Do not report the failure of an interrupted run, since another worker will repeat the run.
    isReported: (occurrence) => {
      const { type, data } = occurrence;
      const isFailure = type === 'bundle.publish_failed' || type === 'run.retry_scheduled';
      return !isFailure || !queue.isInterrupted(data.run_id ?? '');
    },
    process: async (job, publish) => {
      if (job.staged === null) return publish(job);
      const staged = await uploads.create();
      try {
        return await publish({ ...job, staged });
      } finally {
        await uploads.discard(staged).catch((error: unknown) => {
          log.warn({ run_id: job.runId, err: error }, 'a scratch directory could not be removed');
        });
      }
    },
    addPipelines: (pipelineIds) => queue.addPipelines(pipelineIds),
    close: () => directories.close(),
  };
}

type HostOptions = CoordinatorOptions & { secrets: Secrets };

interface Directories {
  shared: SharedStaging;
  /** Absolute path of this process's scratch directory. */
  scratch: string;
  /** Manages the upload directories in `scratch`. */
  uploads: StagingArea;
  close(): Promise<void>;
}

async function openDirectories(
  options: HostOptions,
  location: Parameters<typeof openSharedStaging>[0],
): Promise<Directories> {
  const { config, clock, disk, yieldToEventLoop = neverYield } = options;
  const shared = await openSharedStaging(location, storageOpener(options));
  const scratch = await openScratch(config.server.staging.directory, clock);
  return {
    shared,
    scratch: scratch.directory,
    uploads: createStagingArea(scratch.directory, yieldToEventLoop, disk),
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
      keeps: () => queue.check(),
    }),
    ...stagingChecks(scratch, { clock, requireAnswers }),
    {
      name: 'shared_staging',
      timeoutCode: 'staging_unavailable',
      remedy: 'check that the storage of server.staging.shared answers, has free space and is writable',
      check: cachedCheck(clock, checkSharedEveryMs, () => shared.check()),
    },
  ];
}
