import { hasCode } from '../../core/lib/errors.ts';
import { traceFields } from '../../core/tracing/trace-context.ts';
import type { JobResult } from '../queue/job.ts';
import type { JobProcessor, Pause } from '../queue/job-queue.ts';
import type { QueueOptions } from '../queue/queue-options.ts';
import { cancelled, type QueueLoad, RunEndTimes } from '../queue/refusals.ts';
import { noRunObserver, type RunObserver, waitedSeconds } from '../queue/run-observer.ts';
import { isRetrying, retryLogFields } from '../queue/run-retry.ts';
import { isCancelled } from '../queue/run-transitions.ts';
import type { Journal } from './journal.ts';
import type { RunRegistry } from './run-registry.ts';
import type { Run } from './run-table.ts';
import { FairQueue, RetryQueue } from './waiting-runs.ts';

interface RunSchedulerOptions extends Pick<
  Required<QueueOptions>,
  'clock' | 'log' | 'maxConcurrency' | 'retries'
> {
  runs: RunRegistry;
  journal: Journal;
  /** Called when a run has finished. */
  onEnd: () => void;
}

/**
 * A run during which this many processes have died must run alone. If the process dies again, we know that
 * this run is to blame, and no other run is taken down with it.
 */
const crashesBeforeIsolation = 5;

interface Active {
  run: Run;
  abort: AbortController;
  done: Promise<void>;
}

/**
 * Decides when runs start. A run is first `waiting`, in the order of acceptance, and then `active`, with at
 * most one active run per pipeline and `maxConcurrency` in total. Whenever a run is added or stops being
 * active, `#pump` starts the first waiting runs of all pipelines that are neither busy nor paused. A run that
 * waits for its pipeline does not delay other pipelines. Runs that are waiting for their next attempt are
 * kept in a separate queue. When the attempt is due, they go back to their old place.
 */
export class RunScheduler {
  readonly #options: RunSchedulerOptions;
  readonly #retries: RetryQueue<Run>;
  #processor: JobProcessor | undefined;
  #observer = noRunObserver;
  #isHeld = false;
  readonly #waiting = new FairQueue<Run>();
  readonly #active = new Map<string, Active>();
  readonly #pauses: Map<string, Pause>;
  readonly #endTimes = new RunEndTimes();

  constructor(options: RunSchedulerOptions) {
    this.#options = options;
    this.#retries = new RetryQueue<Run>({ clock: options.clock, onDue: (run) => this.#enqueue(run) });
    this.#pauses = new Map(options.journal.pauses);
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  waitingOf(pipelineId: string): number {
    return this.#waiting.lengthOf(pipelineId);
  }

  /** Returns when the pipeline's first queued run started waiting, or null if there is not one. */
  waitingSince(pipelineId: string): string | null {
    const first = this.#waiting.firstOf(pipelineId);
    return first === undefined ? null : (first.record.queued_at ?? first.record.accepted_at);
  }

  get running(): number {
    return this.#active.size;
  }

  /**
   * Returns how many of the pipeline's runs are queued, how many are waiting for their next attempt, and
   * which one is running.
   */
  countsOf(pipelineId: string): { waiting: number; retrying: number; running: string | null } {
    const running = this.#active.get(pipelineId)?.run.job.runId ?? null;
    const retrying = this.#retries.runsOf(pipelineId).length;
    return { waiting: this.#waiting.lengthOf(pipelineId), retrying, running };
  }

  /** True if no run is active and none could start. */
  get isIdle(): boolean {
    const willRun = this.#processor !== undefined && this.#waiting.has((id) => !this.#pauses.has(id));
    return this.#active.size === 0 && (!willRun || this.#isHeld);
  }

  start(process: JobProcessor, observer: RunObserver = noRunObserver): void {
    this.#processor = process;
    this.#observer = observer;
    this.#pump();
  }

  /** Queues a run. If it replaces runs that are waiting for their next attempt, ends those. */
  add(run: Run): void {
    const { runs } = this.#options;
    for (const waiting of this.#retries.runsOf(run.job.pipelineId))
      this.#replace(waiting, runs.findNewer(waiting));
    if (!isRetrying(run.record)) {
      this.#enqueue(run);
      return;
    }
    this.#retries.add(run);
    this.#replace(run, runs.findNewer(run));
  }

  /** Implements `JobQueue.retryNow`. Does nothing if the run is not waiting for its next attempt. */
  retryNow(run: Run): void {
    if (!this.#retries.remove(run)) return;
    this.#options.runs.makeDue(run);
    this.#enqueue(run);
  }

  get pauses(): ReadonlyMap<string, Pause> {
    return this.#pauses;
  }

  /** See `JobQueue.pause`. */
  pause(pipelineId: string, reason: string | null): Pause {
    const since = this.#pauses.get(pipelineId)?.since ?? this.#options.clock.now().toISOString();
    const pause = { since, reason };
    this.#pauses.set(pipelineId, pause);
    this.#options.journal.savePause(pipelineId, pause);
    return pause;
  }

  /** See `JobQueue.resume`. */
  resume(pipelineId: string): boolean {
    const wasPaused = this.#pauses.delete(pipelineId);
    if (wasPaused) this.#options.journal.savePause(pipelineId, null);
    this.#pump();
    return wasPaused;
  }

  /** Fails a waiting run or stops an active one. Returns undefined if the run is neither. */
  cancel(run: Run): 'forgotten' | 'stopping' | undefined {
    const { runs, onEnd } = this.#options;
    const { pipelineId } = run.job;
    if (this.#waiting.remove(pipelineId, run) || this.#retries.remove(run)) {
      runs.cancel(run, null);
      runs.retain(run);
      // Runs that were waiting behind this one may be able to start now.
      this.#pump();
      onEnd();
      return 'forgotten';
    }
    const active = this.#active.get(pipelineId);
    if (active?.run !== run) return undefined;
    active.abort.abort(cancelled());
    return 'stopping';
  }

  /**
   * Returns the load of a pipeline, given that `waiting` uploads and runs are waiting. If the id is null,
   * returns the load of all pipelines together.
   */
  load(pipelineId: string | null, waiting: number): QueueLoad {
    const isPaused = pipelineId !== null && this.#pauses.has(pipelineId);
    return {
      waiting,
      endedAt: this.#endTimes.of(pipelineId),
      now: this.#options.clock.monotonic(),
      isPaused,
    };
  }

  /** Stops starting runs. Waiting runs are left for the next process. */
  stopStarting(): void {
    this.#isHeld = true;
    this.#retries.close();
  }

  /**
   * Stops retrying. Waiting runs would be lost when this process ends, so each of them gets one last attempt.
   */
  stopRetries(): void {
    const { runs } = this.#options;
    runs.stopRetries();
    for (const run of this.#retries.takeAll()) {
      runs.makeDue(run);
      this.#enqueue(run);
    }
  }

  /**
   * Stops starting runs, and aborts the active ones with `reason`. If the journal survives this process,
   * unfinished runs are left for the next process. Otherwise, they and the waiting runs fail with `reason`.
   * Resolves with the runs that were interrupted before they could succeed, and with those that failed.
   */
  async close(reason: Error): Promise<Run[]> {
    const { runs, journal } = this.#options;
    this.stopStarting();
    const neverStarted = journal.isDurable ? [] : this.#waiting.takeAll();
    for (const run of neverStarted) {
      runs.fail(run, reason);
      runs.retain(run);
    }
    const interrupted = [...this.#active.values()];
    for (const { run, abort } of interrupted) {
      // A run that was cancelled must not be continued.
      run.isInterrupted = journal.isDurable && !abort.signal.aborted;
      abort.abort(reason);
    }
    await Promise.all(interrupted.map(({ done }) => done));
    const undone = interrupted.map(({ run }) => run).filter(({ record }) => record.status !== 'succeeded');
    return [...undone, ...neverStarted];
  }

  #enqueue(run: Run): void {
    this.#waiting.push(run.job.pipelineId, run, run.sequence);
    this.#pump();
  }

  #replace(waiting: Run, newer: Run | undefined): void {
    const { runs, onEnd } = this.#options;
    if (newer === undefined || !this.#retries.remove(waiting)) return;
    runs.supersede(waiting, newer);
    this.#observer.superseded({ pipelineId: waiting.job.pipelineId });
    runs.retain(waiting);
    this.#pump();
    onEnd();
  }

  #pump(): void {
    if (this.#processor === undefined || this.#isHeld) return;
    while (this.#active.size < this.#options.maxConcurrency) {
      const next = this.#next();
      if (next === undefined) return;
      const abort = new AbortController();
      const done = this.#run(next, abort.signal, this.#processor);
      this.#active.set(next.job.pipelineId, { run: next, abort, done });
    }
  }

  /**
   * Removes the next run to start from the queue. A run that may be crashing the process only starts if no
   * other run is active, and no other run starts next to it.
   */
  #next(): Run | undefined {
    if ([...this.#active.values()].some(({ run }) => run.begun > crashesBeforeIsolation)) return undefined;
    const isFree = (id: string): boolean =>
      !this.#active.has(id) && !this.#pauses.has(id) && !this.#isBlocked(id);
    const isSuspect = (id: string): boolean =>
      isFree(id) && (this.#waiting.firstOf(id)?.begun ?? 0) >= crashesBeforeIsolation;
    if (!this.#waiting.has(isSuspect)) return this.#waiting.take(isFree);
    return this.#active.size === 0 ? this.#waiting.take(isSuspect) : undefined;
  }

  /** Reports whether the pipeline has to wait for the next attempt of a run that blocks later ones. */
  #isBlocked(pipelineId: string): boolean {
    if (this.#retries.length === 0 || this.#retries.runsOf(pipelineId).length === 0) return false;
    return this.#options.retries(pipelineId).whileRetrying === 'wait';
  }

  /** Executes a run. Never rejects. The processor is only called once `active` contains the run. */
  async #run(run: Run, signal: AbortSignal, process: JobProcessor): Promise<void> {
    const { clock, log, runs, onEnd } = this.#options;
    // Commits since an earlier process started this run belong to the run as well.
    const { begunAt } = run;
    const job = begunAt === null ? run.job : { ...run.job, begunAt };
    runs.start(run);
    const { pipelineId } = job;
    if (run.record.attempt === 1)
      this.#observer.started({ job, pipelineId, waitedSeconds: waitedSeconds(run.record) });
    const since = clock.monotonic();
    let result: JobResult | null = null;
    try {
      await Promise.resolve();
      result = await process(job, { signal, onProgress: (progress) => runs.progress(run, progress) });
      if (wasCancelled(signal)) runs.cancel(run, result);
      else runs.finish(run, result);
    } catch (error) {
      if (!run.isInterrupted) log.error({ run_id: job.runId, ...traceFields(job), err: error }, 'run failed');
      if (wasCancelled(signal)) runs.cancel(run, null);
      else runs.crash(run, error);
    }
    this.#active.delete(pipelineId);
    const succeeded = run.record.status === 'succeeded';
    const seconds = (clock.monotonic() - since) / 1000;
    if (run.isInterrupted && !succeeded) {
      runs.requeue(run);
    } else if (isRetrying(run.record)) {
      log.warn({ run_id: job.runId, ...retryLogFields(run.record) }, 'run failed; it will be retried');
      this.#observer.retried({ job, record: run.record, seconds, result });
      this.#endTimes.note(pipelineId, clock.monotonic());
      this.#retries.add(run);
    } else {
      this.#observer.finished({ pipelineId, seconds, succeeded, cancelled: isCancelled(run.record), result });
      this.#endTimes.note(pipelineId, clock.monotonic());
      runs.retain(run);
    }
    this.#pump();
    onEnd();
  }
}

/**
 * Reports whether a run was aborted because it was cancelled, and not because the daemon is shutting down.
 */
const wasCancelled = (signal: AbortSignal): boolean => hasCode(signal.reason, 'cancelled');
