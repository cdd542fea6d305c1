import type { Secrets } from '../../core/secrets.ts';
import { WaybillError } from '../../core/errors.ts';
import { storageOpener } from '../../core/storage/open-storage.ts';
import { boardQueues } from './board-queues.ts';
import { bullmqQueue } from './queue.ts';
import { abortGraceMs, type Coordinator, type CoordinatorOptions } from '../memory/coordinator.ts';
import type { PublishJob } from '../job.ts';
import { publishThread, workerPool } from '../threads/pool.ts';
import type { ThreadData } from '../threads/publish-task.ts';
import type { JobProcessor } from '../queue.ts';
import { observedProcessor } from '../run-observer.ts';
import { openScratch } from './scratch-directory.ts';
import { openSharedStaging } from './shared-staging.ts';
import { newUploadDirectory, removeUploadDirectory } from '../staged-directories.ts';

export interface SharedCoordinator extends Coordinator {
  /** What Bull Board shows. */
  board: ReturnType<typeof boardQueues>;
}

/**
 * The coordinator of one host of several: the queue is in Redis and bundles travel through shared staging.
 * Throws, before anything is begun, where Redis, shared staging or the scratch directory do not serve.
 *
 * An upload is received into this process's scratch directory and, once valid, stored in shared staging as
 * one archive. A worker brings it to a scratch directory of its own for as long as the run takes.
 */
export async function createBullmqCoordinator(
  options: CoordinatorOptions & { secrets: Secrets },
): Promise<SharedCoordinator> {
  const { config, clock, log, secrets } = options;
  const { http, staging, queue: settings } = config.server;
  if (settings.driver !== 'bullmq' || staging.shared === null)
    throw new WaybillError('internal_error', 'the coordinator of several hosts needs the bullmq driver');
  const url = secrets.require(settings.redisUrlEnv, 'server.queue');
  const shared = await openSharedStaging(staging.shared, storageOpener({ clock, log, secrets }));
  const scratch = await openScratch(staging.directory, () => clock.now().getTime());
  const discard = (staged: string): Promise<void> => removeUploadDirectory(scratch.directory, staged);
  const queue = await bullmqQueue({
    clock,
    log,
    redis: { url, urlEnv: settings.redisUrlEnv, prefix: settings.prefix },
    pipelineIds: config.pipelines.map(({ id }) => id),
    queueSize: http.queueSize,
    maxConcurrency: http.maxConcurrency,
    retentionMs: http.retentionMs,
    workerTimeoutMs: settings.workerTimeoutMs,
    shared: {
      share: async (job, name) => {
        if (job.staged === null) return job;
        const answer = await shared.share(job, name);
        await discard(job.staged);
        return answer;
      },
      remove: (name) => shared.remove(name),
    },
    onExpire: async (job) => {
      if (job.staged !== null && job.archive !== undefined) await shared.remove(job.archive.name);
    },
  }).catch(async (error: unknown) => {
    await Promise.all([scratch.close(), shared.close()]);
    throw error;
  });
  const data: ThreadData = { config, env: { ...options.env }, verbose: options.verbose };
  const pool = workerPool({
    clock,
    log,
    file: options.workerFile ?? publishThread,
    threads: http.maxConcurrency,
    data,
    env: options.env,
    graceMs: abortGraceMs,
    notify: options.notify,
  });
  const process: JobProcessor = async (job: PublishJob, context) => {
    if (job.staged === null) return pool.process(job, context);
    const directory = await newUploadDirectory(scratch.directory);
    try {
      return await pool.process({ ...job, staged: directory }, context);
    } finally {
      await discard(directory).catch((error: unknown) =>
        log.warn({ run_id: job.runId, err: error }, 'a scratch directory could not be removed'),
      );
    }
  };
  return {
    queue,
    board: boardQueues(queue.queues.values()),
    staging: { create: () => newUploadDirectory(scratch.directory), discard },
    threads: pool.stats,
    start: () =>
      queue.start(
        options.observer === undefined
          ? process
          : observedProcessor(process, { queue, clock, observer: options.observer }),
      ),
    close: async (timeoutMs) => {
      const answer = await queue.close(timeoutMs);
      await pool.close();
      await Promise.all([scratch.close(), shared.close()]);
      return answer;
    },
  };
}
