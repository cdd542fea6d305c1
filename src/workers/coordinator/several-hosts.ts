import { breathless } from '../../core/lib/breath.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import { storageOpener } from '../../core/storage/open-storage.ts';
import { noTracing } from '../../core/tracing/open-tracing.ts';
import { bullmqQueue } from '../bullmq/bullmq-queue.ts';
import { jobSeal, signingKeys } from '../bullmq/job-seal.ts';
import { redisServer } from '../bullmq/redis-client.ts';
import type { PublishJob } from '../queue/job.ts';
import type { JobProcessor } from '../queue/job-queue.ts';
import { RunNews } from '../queue/run-news.ts';
import { retriesOf } from '../queue/run-retry.ts';
import { tracedRuns, tracedWaits } from '../queue/run-trace.ts';
import { openScratch } from '../staging/claimed-directory.ts';
import { openSharedStaging } from '../staging/shared-staging.ts';
import { uploadDirectories } from '../staging/staged-directories.ts';
import { provedAtMost } from '../staging/staging-check.ts';
import { looksPool, planningPool, publishingPool, releasesPool } from '../threads/publishing-pool.ts';
import { maxWaitingOf, runSettings } from '../threads/run-settings.ts';
import type { Coordinator, CoordinatorOptions } from './coordinator.ts';
import { type HealthCheck, queueCheck, stagingChecks } from './health-checks.ts';

// Shared staging may be remote, and each request may cost money.
const checkSharedEveryMs = 10_000;

/**
 * The coordinator of one host of several: the queue is in Redis, and bundles travel through shared staging.
 * Throws before any work starts. `secrets_invalid`: the URL of Redis is missing or malformed.
 * `queue_unavailable`: Redis is unreachable. `config_invalid`: Redis, shared staging or the scratch directory
 * cannot be used.
 *
 * An upload is received into this process's scratch directory. Once valid, it is stored in shared staging as
 * one archive. The worker extracts it into its own scratch directory, which it removes after the run.
 */
export async function createBullmqCoordinator(
  options: CoordinatorOptions & { secrets: Secrets },
): Promise<Coordinator> {
  const { config, clock, log, secrets, observer, tracing: { tracer } = noTracing } = options;
  const { http, staging, queue: settings } = config.server;
  if (settings.driver !== 'bullmq' || staging.shared === null)
    throw new WaybillError('internal_error', 'the coordinator of several hosts needs the bullmq driver');
  const runs = runSettings(config);
  const server = redisServer(settings, secrets);
  const seal = jobSeal(signingKeys(settings.signingKeyEnvs, secrets));
  const shared = await openSharedStaging(staging.shared, storageOpener({ clock, log, secrets }));
  const scratch = await openScratch(staging.directory, clock);
  const scratched = uploadDirectories(scratch.directory, options.breathe ?? breathless, options.disk);
  const unshare = async (job: PublishJob): Promise<void> => {
    if (job.staged !== null && job.archive !== undefined) await shared.remove(job.archive.name);
  };
  let isInterrupted: (runId: string) => boolean = () => false;
  // The failure of an interrupted run is not sent: another worker repeats the run.
  const news = new RunNews((occurrence, trace) => {
    const { type, data } = occurrence;
    const isFailure = type === 'bundle.publish_failed' || type === 'run.retry_scheduled';
    if (!isFailure || !isInterrupted(data.run_id ?? '')) options.notify(occurrence, trace);
  });
  const queue = await bullmqQueue({
    redis: { ...server, prefix: settings.prefix },
    seal,
    clock,
    log,
    pipelineIds: config.pipelines.map(({ id }) => id),
    queueSize: http.queueSize,
    maxWaitingOf: maxWaitingOf(runs),
    maxConcurrency: http.maxConcurrency,
    retentionMs: http.retentionMs,
    workerTimeoutMs: settings.workerTimeoutMs,
    shared: {
      share: async (job, name) => {
        if (job.staged === null) return job;
        const answer = await shared.share(job, name);
        await scratched.discard(job.staged);
        return answer;
      },
      remove: (name) => shared.remove(name),
    },
    onExpire: unshare,
    discard: unshare,
    keep: config.server.rerun,
    retries: retriesOf(runs),
    onOutcome: (job, next) => news.decided(job, next),
    told: async () => options.told?.(),
  }).catch(async (error: unknown) => {
    await Promise.all([scratch.close(), shared.close()]);
    throw error;
  });
  const check = queueCheck(queue, {
    remedy: 'see that Redis runs, has room and is reached from this host; the log has what it answered',
    keeps: () => queue.prove(),
  });
  const sharedCheck: HealthCheck = {
    name: 'shared_staging',
    silent: 'staging_unavailable',
    remedy: 'see that the storage of server.staging.shared answers, has room and can be written',
    prove: provedAtMost(clock, checkSharedEveryMs, () => shared.check()),
  };
  isInterrupted = (runId) => queue.isInterrupted(runId);
  const pool = publishingPool({
    ...options,
    settings: runs,
    notify: (occurrence, trace) => news.add(occurrence, trace),
  });
  const planner = planningPool({ ...options, settings: runs });
  const releases = releasesPool({ ...options, settings: runs });
  const looks = looksPool({ ...options, settings: runs });
  const process: JobProcessor = async (job: PublishJob, context) => {
    news.begin(job.runId);
    if (job.staged === null) return pool.process(job, context);
    const directory = await scratched.create();
    try {
      return await pool.process({ ...job, staged: directory }, context);
    } finally {
      await scratched
        .discard(directory)
        .catch((error: unknown) =>
          log.warn({ run_id: job.runId, err: error }, 'a scratch directory could not be removed'),
        );
    }
  };
  return {
    queue,
    checks: [check, ...stagingChecks(scratch.directory, clock), sharedCheck],
    staging: scratched,
    threads: pool.stats,
    plan: async (job, signal) => (await planner.process(job, { signal, onProgress: () => undefined })).run,
    releases: (request, signal) => releases.ask(request, signal),
    look: (request, signal) => looks.ask(request, signal),
    start: () => queue.start(tracedRuns(process, tracer), tracedWaits(observer, tracer)),
    adopt: async (next) => {
      const before = runs.get();
      // Comes first, because a run of a new pipeline may begin as soon as its queue is open.
      runs.adopt(next);
      await queue.addPipelines(next.pipelines.map(({ id }) => id)).catch((error: unknown) => {
        runs.adopt(before);
        throw error;
      });
    },
    close: async (timeoutMs) => {
      const answer = await queue.close(timeoutMs);
      await Promise.all([pool, planner, releases, looks].map((one) => one.close()));
      await Promise.all([scratch.close(), shared.close()]);
      return answer;
    },
  };
}
