import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { WaybillError } from '../../core/errors.ts';
import type { Coordinator, CoordinatorOptions, StagingArea } from '../coordinator.ts';
import type { PublishJob } from '../job.ts';
import { maxWaitingOf } from '../max-waiting.ts';
import { newUploadDirectory, removeUploadDirectory, sweepUploadDirectories } from '../staged-directories.ts';
import { proveStaging, provedAtMost } from '../staging-check.ts';
import { planningPool, publishingPool } from '../threads/publishing-pool.ts';
import { memoryQueue } from './queue.ts';

const checkEveryMs = 1_000;

/**
 * The coordinator of a single process. The staging directory must be ready (`prepareStaging`); closing
 * removes every upload directory from it, since no record outlives this process.
 */
export function createCoordinator(options: CoordinatorOptions): Coordinator {
  const { config, clock, log, observer } = options;
  const { http, staging: settings } = config.server;
  const staging: StagingArea = {
    create: () => newUploadDirectory(settings.directory),
    check: provedAtMost(clock, checkEveryMs, () => proveStaging(settings.directory)),
    discard: (staged) => removeUploadDirectory(settings.directory, staged),
  };
  const discard = async (job: PublishJob): Promise<void> => {
    if (job.staged !== null) await staging.discard(job.staged);
  };
  const queue = memoryQueue({
    clock,
    log,
    queueSize: http.queueSize,
    maxWaitingOf: maxWaitingOf(config),
    maxConcurrency: http.maxConcurrency,
    retentionMs: http.retentionMs,
    onExpire: discard,
    discard,
  });
  const pool = publishingPool(options);
  const planner = planningPool(options);
  return {
    queue,
    staging,
    board: null,
    threads: pool.stats,
    plan: async (job, signal) => (await planner.process(job, { signal, onProgress: () => undefined })).run,
    start: () => queue.start(pool.process, observer),
    close: async (timeoutMs) => {
      const answer = await queue.close(timeoutMs);
      await Promise.all([pool.close(), planner.close()]);
      await sweepUploadDirectories(settings.directory);
      return answer;
    },
  };
}

/**
 * Makes the staging directory, proves that it can be written, and removes what an earlier process left there:
 * its records are gone, so nothing will ever own those directories. Resolves with the names of the removed
 * directories. Throws `config_invalid` if the directory cannot be used.
 */
export async function prepareStaging(directory: string): Promise<{ swept: string[] }> {
  const probe = path.join(directory, '.waybill-probe');
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await writeFile(probe, '');
    await rm(probe);
    return { swept: await sweepUploadDirectories(directory) };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new WaybillError('config_invalid', `server.staging.directory ${directory} cannot be used: ${why}`, {
      cause,
      hint: 'name a directory that the daemon may write, with room for the uploads that are retained',
    });
  }
}
