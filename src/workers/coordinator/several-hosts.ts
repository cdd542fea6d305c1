import { breathless } from '../../core/lib/breath.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Secrets } from '../../core/lib/secrets.ts';
import { storageOpener } from '../../core/storage/open-storage.ts';
import { noTracing } from '../../core/tracing/open-tracing.ts';
import { type BullmqQueue, bullmqQueue } from '../bullmq/bullmq-queue.ts';
import { jobSeal, signingKeys } from '../bullmq/job-seal.ts';
import { type ShardedQueue, shardedQueue, type ShardedQueueOptions } from '../bullmq/shards/sharded-queue.ts';
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
  const urls = redisUrls(settings.redisUrlEnvs, secrets);
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
  const { queue, check } = await openBullmq(urls, {
    prefix: settings.prefix,
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
    told: async (redis) => options.told?.(redis),
  }).catch(async (error: unknown) => {
    await Promise.all([scratch.close(), shared.close()]);
    throw error;
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

/** The common interface of the queues over one or several Redis servers. */
type AnyBullmqQueue = Pick<BullmqQueue, keyof ShardedQueue & keyof BullmqQueue>;

const remedy = 'see that Redis runs, has room and is reached from this host; the log has what it answered';

/**
 * Opens the queue in one Redis, or over several named by their variables, and its health check. Throws as
 * `bullmqQueue`.
 */
async function openBullmq(
  urls: ReadonlyMap<string, string>,
  options: Omit<ShardedQueueOptions, 'redis'> & { prefix: string },
): Promise<{ queue: AnyBullmqQueue; check: HealthCheck }> {
  const { prefix, told } = options;
  const [[urlEnv, url] = ['', ''], ...others] = urls;
  if (others.length === 0) {
    const redis = { url, urlEnv, prefix };
    const queue = await bullmqQueue({ ...options, redis, told: async () => told?.(urlEnv) });
    return { queue, check: queueCheck(queue, { remedy, keeps: () => queue.prove() }) };
  }
  const queue = await shardedQueue({ ...options, redis: { urls, prefix } });
  return { queue, check: severalCheck(queue, urls.size) };
}

/**
 * Fails if no Redis answers. If only some answer, it reports the unreachable ones, and the pipelines of the
 * reachable ones continue.
 */
function severalCheck(queue: Pick<ShardedQueue, 'away'>, count: number): HealthCheck {
  return {
    name: 'queue',
    silent: 'queue_unavailable',
    remedy,
    prove: async () => {
      await queue.away();
    },
    lacking: async () => {
      const away = await queue.away();
      if (away.length === 0) return null;
      return new WaybillError(
        'queue_unavailable',
        `${away.length} of ${count} Redis ${away.length === 1 ? 'does' : 'do'} not answer (${away.join(', ')}): their pipelines wait, the others go on`,
      );
    },
  };
}

/** URLs by name. Throws `secrets_invalid` if one is missing or two are equal. */
function redisUrls(names: readonly string[], secrets: Secrets): Map<string, string> {
  const urls = new Map<string, string>();
  for (const name of names) {
    const url = secrets.require(name, 'server.queue');
    const other = [...urls].find(([, known]) => known === url)?.[0];
    if (other !== undefined)
      throw new WaybillError('secrets_invalid', `${other} and ${name} have the URL of the same Redis`, {
        hint: 'name each Redis once in server.queue.redis_url_envs',
      });
    urls.set(name, url);
  }
  return urls;
}
