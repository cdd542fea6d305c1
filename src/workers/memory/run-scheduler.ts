import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import { traceFields } from '../../core/tracing/trace-context.ts';
import type { JobResult } from '../queue/job.ts';
import type { JobProcessor, Pause } from '../queue/job-queue.ts';
import { cancelled, type QueueLoad, RunEndTimes } from '../queue/refusals.ts';
import { type RunObserver, unobserved, waitedSeconds } from '../queue/run-observer.ts';
import { isRetrying, nextTryOf, type RetriesOf } from '../queue/run-retry.ts';
import { isCancelled } from '../queue/run-transitions.ts';
import type { Journal } from './journal.ts';
import type { RunRegistry } from './run-registry.ts';
import type { Run } from './run-table.ts';
import { FairQueue, RetryQueue } from './waiting-runs.ts';

export interface RunSchedulerOptions {
  clock: Clock;
  log: Log;
  /** Maximum number of concurrent jobs. */
  maxConcurrency: number;
  runs: RunRegistry;
  retries: RetriesOf;
  journal: Journal;
  /** Called when a run has ended. */
  onEnd: () => void;
}

/**
 * After this many processes have died while running it, a run is isolated and runs alone. If the process dies
 * again, this run is the cause, and no other run fails because of it.
 */
const crashesBeforeIsolation = 5;

interface Active {
  run: Run;
  abort: AbortController;
  done: Promise<void>;
}

/**
 * Schedules runs. A run is `waiting` (in order of acceptance), then `active` (at most one per pipeline and
 * `maxConcurrency` overall), then finished. Whenever a run is added or leaves `active`, `#pump` starts the
 * first waiting runs of free pipelines that are not paused. Runs waiting for their pipeline do not delay
 * other pipelines. Runs waiting for their next try are in a separate queue and return to their place when it
 * is due.
 */
export class RunScheduler {
  readonly #options: RunSchedulerOptions;
  readonly #retries: RetryQueue<Run>;
  #processor: JobProcessor | undefined;
  #observer = unobserved;
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

  /**
   * Returns the time since which the pipeline's first queued run has been waiting, or null if no run is
   * waiting.
   */
  waitingSince(pipelineId: string): string | null {
    const first = this.#waiting.firstOf(pipelineId);
    return first === undefined ? null : (first.record.queued_at ?? first.record.accepted_at);
  }

  get running(): number {
    return this.#active.size;
  }

  /**
   * Returns how many of the pipeline's runs are queued and how many are waiting for their next try, plus its
   * running run.
   */
  of(pipelineId: string): { waiting: number; retrying: number; running: string | null } {
    const running = this.#active.get(pipelineId)?.run.job.runId ?? null;
    const retrying = this.#retries.of(pipelineId).length;
    return { waiting: this.#waiting.lengthOf(pipelineId), retrying, running };
  }

  /** True if no run is in progress or able to start. */
  get isIdle(): boolean {
    const willRun = this.#processor !== undefined && this.#waiting.has((id) => !this.#pauses.has(id));
    return this.#active.size === 0 && (!willRun || this.#isHeld);
  }

  start(process: JobProcessor, observer: RunObserver = unobserved): void {
    this.#processor = process;
    this.#observer = observer;
    this.#pump();
  }

  /** Queues a run, and ends the runs it replaces among those waiting for their next try. */
  add(run: Run): void {
    const { runs } = this.#options;
    for (const waiting of this.#retries.of(run.job.pipelineId)) this.#replace(waiting, runs.newerOf(waiting));
    if (!isRetrying(run.record)) {
      this.#enqueue(run);
      return;
    }
    this.#retries.add(run);
    this.#replace(run, runs.newerOf(run));
  }

  /** Implements `JobQueue.retryNow`. Does nothing unless the run is waiting for its next try. */
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
    this.#options.journal.paused(pipelineId, pause);
    return pause;
  }

  /** See `JobQueue.resume`. */
  resume(pipelineId: string): boolean {
    const wasPaused = this.#pauses.delete(pipelineId);
    if (wasPaused) this.#options.journal.paused(pipelineId, null);
    this.#pump();
    return wasPaused;
  }

  /** Fails a waiting run or stops a running one. Returns undefined if it is neither. */
  cancel(run: Run): 'forgotten' | 'stopping' | undefined {
    const { runs, onEnd } = this.#options;
    const { pipelineId } = run.job;
    if (this.#waiting.remove(pipelineId, run) || this.#retries.remove(run)) {
      runs.cancel(run, null);
      runs.keep(run);
      // Other runs may have been waiting behind it.
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
   * Returns the load with `waiting` uploads and runs, of one pipeline or, if the id is null, of all of them
   * together.
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

  /** Stops starting runs. Waiting ones are left to the next process. */
  hold(): void {
    this.#isHeld = true;
    this.#retries.close();
  }

  /** Waiting runs are lost when this process ends, so each gets one last attempt without retries. */
  endRetries(): void {
    const { runs } = this.#options;
    runs.endRetries();
    for (const run of this.#retries.takeAll()) {
      runs.makeDue(run);
      this.#enqueue(run);
    }
  }

  /**
   * Stops starting runs, and stops the running ones with `reason`. If the journal outlives this process,
   * unfinished runs are left to the next process. Otherwise they fail with `reason`, as do waiting ones.
   * Resolves with the interrupted runs that did not succeed and the failed ones.
   */
  async close(reason: Error): Promise<Run[]> {
    const { runs, journal } = this.#options;
    this.hold();
    const neverStarted = journal.outlives ? [] : this.#waiting.takeAll();
    for (const run of neverStarted) {
      runs.fail(run, reason);
      runs.keep(run);
    }
    const interrupted = [...this.#active.values()];
    for (const { run, abort } of interrupted) {
      // A cancelled run is not continued.
      run.isInterrupted = journal.outlives && !abort.signal.aborted;
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
    runs.keep(waiting);
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

  /** Takes the next run to start. A suspect run starts only when no other run is active, and runs alone. */
  #next(): Run | undefined {
    if ([...this.#active.values()].some(({ run }) => run.begun > crashesBeforeIsolation)) return undefined;
    const isFree = (id: string): boolean =>
      !this.#active.has(id) && !this.#pauses.has(id) && !this.#isBlocked(id);
    const isSuspect = (id: string): boolean =>
      isFree(id) && (this.#waiting.firstOf(id)?.begun ?? 0) >= crashesBeforeIsolation;
    if (!this.#waiting.has(isSuspect)) return this.#waiting.take(isFree);
    return this.#active.size === 0 ? this.#waiting.take(isSuspect) : undefined;
  }

  /** Reports whether a run is waiting for its next try and blocks later runs of its pipeline. */
  #isBlocked(pipelineId: string): boolean {
    if (this.#retries.length === 0 || this.#retries.of(pipelineId).length === 0) return false;
    return this.#options.retries(pipelineId).whileRetrying === 'wait';
  }

  /** Never rejects. Calls the processor only once `active` contains the run. */
  async #run(run: Run, signal: AbortSignal, process: JobProcessor): Promise<void> {
    const { clock, log, runs, onEnd } = this.#options;
    // Changes committed since an earlier process started the run belong to this run.
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
      else runs.broke(run, error);
    }
    this.#active.delete(pipelineId);
    const succeeded = run.record.status === 'succeeded';
    const seconds = (clock.monotonic() - since) / 1000;
    if (run.isInterrupted && !succeeded) {
      runs.requeue(run);
    } else if (isRetrying(run.record)) {
      log.warn({ run_id: job.runId, ...nextTryOf(run.record) }, 'run failed; it is tried again');
      this.#observer.retried({ job, record: run.record, seconds, result });
      this.#endTimes.note(pipelineId, clock.monotonic());
      this.#retries.add(run);
    } else {
      this.#observer.finished({ pipelineId, seconds, succeeded, cancelled: isCancelled(run.record), result });
      this.#endTimes.note(pipelineId, clock.monotonic());
      runs.keep(run);
    }
    this.#pump();
    onEnd();
  }
}

/** Reports whether the abort is a cancellation rather than a daemon shutdown. */
const wasCancelled = (signal: AbortSignal): boolean => hasCode(signal.reason, 'cancelled');
