import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { errorMessage, errorRecord, WaybillError } from '../../core/lib/errors.ts';
import { neverYield } from '../../core/lib/event-loop.ts';
import type { Occurrence } from '../../core/notify/event.ts';
import { eventIdOf } from '../../core/notify/event-id.ts';
import { runFailure } from '../../core/publish/results/occurrences.ts';
import { createRoot } from '../../core/storage/local/local-root.ts';
import { traceOf } from '../../core/tracing/trace-context.ts';
import type { QueueStore } from '../embedded/queue-store.ts';
import { noJournal } from '../memory/journal.ts';
import { type MemoryQueue, memoryQueue } from '../memory/memory-queue.ts';
import type { PublishJob } from '../queue/job.ts';
import {
  createStagingArea,
  sweepUploadDirectories,
  uploadDirectoryOf,
} from '../staging/staged-directories.ts';
import type { CommonQueueOptions, CoordinatorOptions, QueueHost } from './coordinator.ts';
import { queueCheck, stagingChecks } from './health-checks.ts';

/**
 * Opens the queue of a single process. Prepare the staging directory with `prepareStaging` first. `store` has
 * the runs that survive a restart. If it is null, none do. Closing removes all upload directories, except
 * those of runs that will continue after a restart.
 */
export function singleHost(
  options: CoordinatorOptions,
  common: CommonQueueOptions,
  store: Pick<QueueStore, 'journal' | 'check'> | null = null,
): QueueHost {
  const { config, clock, notify, yieldToEventLoop = neverYield, disk, requireAnswers } = options;
  const { directory } = config.server.staging;
  const journal = store?.journal ?? noJournal;
  const staging = createStagingArea(directory, yieldToEventLoop, disk);
  const discard = async (job: PublishJob): Promise<void> => {
    if (job.staged !== null) await staging.discard(job.staged);
  };
  const queue = memoryQueue({
    ...common,
    journal,
    onExpire: discard,
    discard,
    onAbandoned: (job, error) =>
      notify(runFailure(job.pipelineId, job.runId, errorRecord(error)), traceOf(job)),
  });
  return {
    queue,
    staging,
    checks: [
      queueCheck(queue, {
        remedy: 'check that the disk of server.queue.directory has free space and is writable',
        keeps: () => store?.check(),
      }),
      ...stagingChecks(directory, { clock, requireAnswers }),
    ],
    isReported: (occurrence) => isReported(queue, occurrence),
    process: (job, publish) => publish(job),
    addPipelines: async () => undefined,
    close: async () => {
      await sweepUploadDirectories(
        directory,
        journal.isDurable ? stagedDirectoriesOf(queue.jobs(), directory) : undefined,
      );
    },
  };
}

/**
 * Reports whether notifiers should receive the event. The failure of an interrupted run is not reported,
 * because the next process is going to continue that run. Events that were already reported by an earlier
 * attempt or process are skipped as well.
 */
function isReported(queue: MemoryQueue, occurrence: Occurrence): boolean {
  const { type, data } = occurrence;
  if (!('run_id' in data) || data.run_id === null) return true;
  if (type === 'bundle.publish_failed' && queue.isInterrupted(data.run_id)) return false;
  return queue.markReported(data.run_id, eventIdOf(occurrence));
}

/** Returns the upload directories used by these jobs. */
export function stagedDirectoriesOf(jobs: Iterable<PublishJob>, staging: string): Set<string> {
  const directories = [...jobs].flatMap(({ staged }) => (staged === null ? [] : [staged]));
  return new Set(directories.map((staged) => uploadDirectoryOf(staging, staged)));
}

/**
 * Creates the staging directory if necessary, and makes sure it is writable. Upload directories that earlier
 * processes left behind are removed, except for those in `keep`: they have no record, so no run will ever use
 * them. Resolves with the names of the removed directories. Throws a `config_invalid` error if the directory
 * cannot be used.
 */
export async function prepareStaging(
  directory: string,
  keep: ReadonlySet<string> = new Set(),
): Promise<{ swept: string[] }> {
  const probe = path.join(directory, '.waybill-probe');
  try {
    createRoot(path.resolve(directory), 0o700);
    await writeFile(probe, '', { mode: 0o600 });
    await rm(probe);
    return { swept: await sweepUploadDirectories(directory, keep) };
  } catch (cause) {
    const why = errorMessage(cause);
    const hint = cause instanceof WaybillError ? cause.hint : undefined;
    throw new WaybillError('config_invalid', `server.staging.directory ${directory} cannot be used: ${why}`, {
      cause,
      hint:
        hint ?? 'choose a directory that the daemon can write to, with space for the uploads that it retains',
    });
  }
}
