import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Config } from '../../core/config/config.ts';
import { errorRecord, WaybillError } from '../../core/lib/errors.ts';
import { neverYield } from '../../core/lib/event-loop.ts';
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
import { RunEventBuffer } from '../queue/run-events.ts';
import { tracedRuns, tracedWaits } from '../queue/run-observer.ts';
import {
  type StagingArea,
  sweepUploadDirectories,
  uploadDirectories,
  uploadDirectoryOf,
} from '../staging/staged-directories.ts';
import { PublishingThreads } from '../threads/publishing-pool.ts';
import { queueSettings, type RunSettings, runSettings } from '../threads/run-settings.ts';
import type { Coordinator, CoordinatorOptions } from './coordinator.ts';
import { type HealthCheck, queueCheck, stagingChecks } from './health-checks.ts';

/** Storage for runs that have to survive a restart of the process. */
export interface RunPersistence {
  journal: Journal;
  /** Throws an error with the reason if runs can't be stored right now. */
  check(): void;
}

const noPersistence: RunPersistence = { journal: noJournal, check: () => undefined };

/**
 * The coordinator for a single process. Prepare the staging directory with `prepareStaging` first. When the
 * coordinator closes, it removes all upload directories, except those of runs that will continue after a
 * restart.
 */
export class OneHostCoordinator implements Coordinator {
  readonly queue: MemoryQueue;
  readonly staging: StagingArea;
  readonly checks: readonly HealthCheck[];
  readonly threads: PublishingThreads;
  readonly #options: CoordinatorOptions;
  readonly #journal: Journal;
  readonly #settings: RunSettings;
  readonly #news: RunEventBuffer;

  constructor(options: CoordinatorOptions, persistence: RunPersistence = noPersistence) {
    const { config, clock } = options;
    const { directory } = config.server.staging;
    this.#options = options;
    this.#journal = persistence.journal;
    this.#settings = runSettings(config);
    this.#news = new RunEventBuffer((occurrence, trace) => {
      if (isReported(this.queue, occurrence)) options.notify(occurrence, trace);
    });
    this.staging = uploadDirectories(directory, options.yieldToEventLoop ?? neverYield, options.disk);
    this.queue = this.#openQueue();
    this.checks = [
      queueCheck(this.queue, {
        remedy: 'check that the disk of server.queue.directory has free space and is writable',
        keeps: () => persistence.check(),
      }),
      ...stagingChecks(directory, { clock, requireAnswers: options.requireAnswers }),
    ];
    this.threads = new PublishingThreads({
      ...options,
      settings: this.#settings,
      notify: (occurrence, trace) => this.#news.add(occurrence, trace),
    });
  }

  async start(): Promise<void> {
    const { observer, tracing: { tracer } = noTracing } = this.#options;
    const publish: JobProcessor = (job, context) => {
      this.#news.begin(job.runId);
      return this.threads.publish(job, context);
    };
    await this.queue.start(tracedRuns(publish, tracer), tracedWaits(observer, tracer));
  }

  async adopt(config: Config): Promise<void> {
    this.#settings.adopt(config);
  }

  async close(timeoutMs: number): Promise<{ unfinished: string[] }> {
    const { directory } = this.#options.config.server.staging;
    const closed = await this.queue.close(timeoutMs);
    await this.threads.close();
    const kept = this.#journal.outlives ? stagedOf(this.queue.jobs(), directory) : new Set<string>();
    await sweepUploadDirectories(directory, kept);
    return closed;
  }

  #openQueue(): MemoryQueue {
    const { clock, log, notify } = this.#options;
    const discard = async (job: PublishJob): Promise<void> => {
      if (job.staged !== null) await this.staging.discard(job.staged);
    };
    return memoryQueue({
      ...queueSettings(this.#settings),
      clock,
      log,
      journal: this.#journal,
      onExpire: discard,
      discard,
      onOutcome: (job, next) => this.#news.decided(job, next),
      onGivenUp: (job, error) =>
        notify(runFailure(job.pipelineId, job.runId, errorRecord(error)), traceOf(job)),
    });
  }
}

/**
 * Reports whether notifiers should receive the event. The failure of an interrupted run isn't reported,
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
export function stagedOf(jobs: Iterable<PublishJob>, staging: string): Set<string> {
  const directories = [...jobs].flatMap(({ staged }) => (staged === null ? [] : [staged]));
  return new Set(directories.map((staged) => uploadDirectoryOf(staging, staged)));
}

/**
 * Creates the staging directory if necessary, and makes sure it is writable. Upload directories that earlier
 * processes left behind are removed, except for those in `keep`: they have no record, so no run will ever use
 * them. Resolves with the names of the removed directories. Throws a `config_invalid` error if the directory
 * can't be used.
 */
export async function prepareStaging(
  directory: string,
  keep: ReadonlySet<string> = new Set(),
): Promise<{ swept: string[] }> {
  const probe = path.join(directory, '.waybill-probe');
  try {
    makeRoot(path.resolve(directory), 0o700);
    await writeFile(probe, '', { mode: 0o600 });
    await rm(probe);
    return { swept: await sweepUploadDirectories(directory, keep) };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const hint = cause instanceof WaybillError ? cause.hint : undefined;
    throw new WaybillError('config_invalid', `server.staging.directory ${directory} cannot be used: ${why}`, {
      cause,
      hint:
        hint ?? 'choose a directory that the daemon can write to, with space for the uploads that it retains',
    });
  }
}
