import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { breathless } from '../../core/lib/breath.ts';
import { errorRecord, WaybillError } from '../../core/lib/errors.ts';
import type { Occurrence } from '../../core/notify/event.ts';
import { eventIdOf } from '../../core/notify/event-id.ts';
import { runFailure } from '../../core/publish/results/occurrences.ts';
import { makeRoot } from '../../core/storage/local/root.ts';
import { noTracing } from '../../core/tracing/open-tracing.ts';
import { traceOf } from '../../core/tracing/trace-context.ts';
import { type Journal, noJournal } from '../memory/journal.ts';
import { type MemoryQueue, memoryQueue } from '../memory/memory-queue.ts';
import type { PublishJob } from '../queue/job.ts';
import type { JobProcessor } from '../queue/job-queue.ts';
import { RunNews } from '../queue/run-news.ts';
import { retriesOf } from '../queue/run-retry.ts';
import { tracedRuns, tracedWaits } from '../queue/run-trace.ts';
import {
  sweepUploadDirectories,
  uploadDirectories,
  uploadDirectoryOf,
} from '../staging/staged-directories.ts';
import { looksPool, planningPool, publishingPool, releasesPool } from '../threads/publishing-pool.ts';
import { maxWaitingOf, runSettings } from '../threads/run-settings.ts';
import type { Coordinator, CoordinatorOptions } from './coordinator.ts';
import { queueCheck, stagingChecks } from './health-checks.ts';

/** Storage for runs that outlive the process. */
export interface Keeping {
  journal: Journal;
  /** Throws the reason if nothing can be stored at the moment. */
  check(): void;
}

const keepsNothing: Keeping = { journal: noJournal, check: () => undefined };

/**
 * The coordinator of a single process. The staging directory must be ready (`prepareStaging`). Closing
 * removes every upload directory from it, except those of runs that outlive this process.
 */
export function createCoordinator(options: CoordinatorOptions, keeping: Keeping = keepsNothing): Coordinator {
  const { config, clock, log, observer, tracing: { tracer } = noTracing } = options;
  const { http, staging: settings } = config.server;
  const { journal } = keeping;
  const runs = runSettings(config);
  const staging = uploadDirectories(settings.directory, options.breathe ?? breathless, options.disk);
  const discard = async (job: PublishJob): Promise<void> => {
    if (job.staged !== null) await staging.discard(job.staged);
  };
  const news = new RunNews((occurrence, trace) => {
    if (isNews(queue, occurrence)) options.notify(occurrence, trace);
  });
  const queue: MemoryQueue = memoryQueue({
    clock,
    log,
    journal,
    queueSize: http.queueSize,
    maxWaitingOf: maxWaitingOf(runs),
    maxConcurrency: http.maxConcurrency,
    retentionMs: http.retentionMs,
    onExpire: discard,
    discard,
    keep: config.server.rerun,
    retries: retriesOf(runs),
    onOutcome: (job, next) => news.decided(job, next),
    onGivenUp: (job, error) =>
      options.notify(runFailure(job.pipelineId, job.runId, errorRecord(error)), traceOf(job)),
  });
  const pool = publishingPool({
    ...options,
    settings: runs,
    notify: (occurrence, trace) => news.add(occurrence, trace),
  });
  const process: JobProcessor = (job, context) => {
    news.begin(job.runId);
    return pool.process(job, context);
  };
  const planner = planningPool({ ...options, settings: runs });
  const releases = releasesPool({ ...options, settings: runs });
  const looks = looksPool({ ...options, settings: runs });
  return {
    queue,
    staging,
    checks: [
      queueCheck(queue, {
        remedy: 'see that the disk of server.queue.directory has room and can be written',
        keeps: () => keeping.check(),
      }),
      ...stagingChecks(settings.directory, clock),
    ],
    threads: pool.stats,
    plan: async (job, signal) => (await planner.process(job, { signal, onProgress: () => undefined })).run,
    releases: (request, signal) => releases.ask(request, signal),
    look: (request, signal) => looks.ask(request, signal),
    start: () => queue.start(tracedRuns(process, tracer), tracedWaits(observer, tracer)),
    adopt: async (next) => runs.adopt(next),
    close: async (timeoutMs) => {
      const answer = await queue.close(timeoutMs);
      await Promise.all([pool, planner, releases, looks].map((one) => one.close()));
      const kept = journal.outlives ? stagedOf(queue.jobs(), settings.directory) : new Set<string>();
      await sweepUploadDirectories(settings.directory, kept);
      return answer;
    },
  };
}

/**
 * Whether to send the event to notifiers. The failure of an interrupted run is not sent, because the next
 * process continues the run. Neither are events that an earlier try or process has already reported.
 */
function isNews(queue: MemoryQueue, occurrence: Occurrence): boolean {
  const { type, data } = occurrence;
  if (!('run_id' in data) || data.run_id === null) return true;
  if (type === 'bundle.publish_failed' && queue.isInterrupted(data.run_id)) return false;
  return queue.tell(data.run_id, eventIdOf(occurrence));
}

/** The upload directories of these jobs. */
export function stagedOf(jobs: Iterable<PublishJob>, staging: string): Set<string> {
  const directories = [...jobs].flatMap(({ staged }) => (staged === null ? [] : [staged]));
  return new Set(directories.map((staged) => uploadDirectoryOf(staging, staged)));
}

/**
 * Creates the staging directory, checks that it is writable, and removes upload directories of earlier
 * processes, except those in `keep`. The removed ones have no record, so no run will use them. Resolves with
 * their names. Throws `config_invalid` if the directory cannot be used.
 */
export async function prepareStaging(
  directory: string,
  keep: ReadonlySet<string> = new Set(),
): Promise<{ swept: string[] }> {
  const probe = path.join(directory, '.waybill-probe');
  try {
    makeRoot({ label: 'staging' }, path.resolve(directory), 0o700);
    await writeFile(probe, '', { mode: 0o600 });
    await rm(probe);
    return { swept: await sweepUploadDirectories(directory, keep) };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const hint = cause instanceof WaybillError ? cause.hint : undefined;
    throw new WaybillError('config_invalid', `server.staging.directory ${directory} cannot be used: ${why}`, {
      cause,
      hint:
        hint ?? 'choose a directory that the daemon can write to, with room for the uploads that it retains',
    });
  }
}
