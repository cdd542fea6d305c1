import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../../core/clock.ts';
import type { Config } from '../../core/config/config.ts';
import { WaybillError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { Occurrence } from '../../core/notify/event.ts';
import { memoryQueue } from './queue.ts';
import { publishThread, workerPool, type ThreadStats } from '../threads/pool.ts';
import type { ThreadData } from '../threads/publish-task.ts';
import type { JobQueue } from '../queue.ts';
import { observedProcessor, type RunObserver } from '../run-observer.ts';
import { newUploadDirectory, removeUploadDirectory, sweepUploadDirectories } from '../staged-directories.ts';

export interface CoordinatorOptions {
  config: Config;
  env: Readonly<Record<string, string>>;
  clock: Clock;
  log: Log;
  /** Whether anyone reads lines of level debug of the worker threads. */
  verbose: boolean;
  /** Is told of every run that a thread takes up. */
  observer?: RunObserver;
  /** What publications have to tell, for notifiers. */
  notify: (occurrence: Occurrence) => void;
  /** Another module than the publishing one; for tests of what the daemon does when threads misbehave. */
  workerFile?: URL;
}

/**
 * Accepted uploads on their way to worker threads: the queue, the threads, and the staged directories that
 * belong to runs.
 */
export interface Coordinator {
  queue: JobQueue;
  /**
   * Where uploads wait. A directory made here belongs to the upload, and from acceptance on to its run, with
   * which it goes.
   */
  staging: StagingArea;
  threads(): ThreadStats;
  /** Begins to publish. */
  start(): Promise<void>;
  /** Stops as `JobQueue.close` tells, ends the threads, and clears staging. */
  close(timeoutMs: number): Promise<{ unfinished: string[] }>;
}

export interface StagingArea {
  create(): Promise<string>;
  /** Removes the directory that `create` made; `staged` is that directory or lies in it. */
  discard(staged: string): Promise<void>;
}

// An aborted publication gets this long to clean up and give its lease back before its thread is ended.
export const abortGraceMs = 10_000;

export function createCoordinator(options: CoordinatorOptions): Coordinator {
  const { config, clock, log } = options;
  const { http, staging } = config.server;
  const directories: StagingArea = {
    create: () => newUploadDirectory(staging.directory),
    discard: (staged) => removeUploadDirectory(staging.directory, staged),
  };
  const queue = memoryQueue({
    clock,
    log,
    queueSize: http.queueSize,
    maxConcurrency: http.maxConcurrency,
    retentionMs: http.retentionMs,
    onExpire: async (job) => {
      if (job.staged !== null) await directories.discard(job.staged);
    },
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
  return {
    queue,
    staging: directories,
    threads: pool.stats,
    start: () =>
      queue.start(
        options.observer === undefined
          ? pool.process
          : observedProcessor(pool.process, { queue, clock, observer: options.observer }),
      ),
    close: async (timeoutMs) => {
      const answer = await queue.close(timeoutMs);
      await pool.close();
      await sweepUploadDirectories(staging.directory);
      return answer;
    },
  };
}

/**
 * Makes the staging directory, proves that it can be written, and removes what an earlier process left there:
 * its records are gone, so nothing will ever own those directories. Throws `config_invalid` where the
 * directory does not serve.
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
