import { errorRecord, WaybillError } from '../../core/lib/errors.ts';
import { isRerunnable, type Rerun, rerunJob } from '../queue/bundle-retention.ts';
import type { JobProgress, JobResult, PublishJob } from '../queue/job.ts';
import type { QueueOptions } from '../queue/queue-options.ts';
import { RunWaiters } from '../queue/run-changes.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { hasSameTarget, makeRetryDue, retryOrFail, supersededRun } from '../queue/run-retry.ts';
import {
  acceptedRun,
  cancelledRun,
  failedRun,
  finishedRun,
  progressedRun,
  queuedRun,
  returnedRun,
  startedRun,
} from '../queue/run-transitions.ts';
import { Bundles, Retention } from './bundles.ts';
import type { Journal, StoredRun } from './journal.ts';
import { type Run, RunTable } from './run-table.ts';

const fresh = { sequence: 0, kept: null, undo: null, isInterrupted: false };

interface RunRegistryOptions extends Required<QueueOptions> {
  journal: Journal;
  /** Called once when a finished run is deleted, before `onExpire`. */
  onForget: (run: Run) => void;
  /** Called when a run fails because too many processes died while executing it. */
  onAbandoned: (job: PublishJob, error: WaybillError) => void;
}

/**
 * Holds the records of all runs. Nothing else modifies them. A run goes through `accept`, `start`, and
 * `progress`, and then through `finish`, `fail`, `cancel`, or `requeue`. It is deleted when its retention
 * period is over. All changes except for progress are written to the journal.
 */
export class RunRegistry {
  readonly #options: RunRegistryOptions;
  readonly #finished: Retention<Run>;
  readonly #waiters = new RunWaiters();
  #hasRetries = true;
  readonly table: RunTable;
  readonly bundles: Bundles<Run>;

  constructor(options: RunRegistryOptions) {
    const { clock, retentionMs } = options;
    this.#options = options;
    this.table = new RunTable(clock, options.journal);
    this.bundles = new Bundles({ ...options, onDelete: (run) => this.#notRerunnable(run) });
    this.#finished = new Retention({ clock, retentionMs, onExpire: (run) => this.#forget(run) });
  }

  /**
   * Restores the runs of earlier processes, and returns those that are waiting, in order. A run that was in
   * progress goes back to waiting, or fails if too many processes have already died while executing it.
   */
  restore(): Run[] {
    const { clock, journal, onAbandoned } = this.#options;
    const runs = journal.runs.map((kept): Run => ({ ...kept, ...fresh }));
    const now = clock.now().getTime();
    for (const run of runs) {
      this.table.add(run);
      if (run.record.finished_at !== null) continue;
      // If the start was not stored, use the time of acceptance. The run cannot have started before that.
      run.begunAt ??= run.record.accepted_at;
      this.table.change(run, returnedRun(run.record));
      const error = tooManyCrashes(run.begun, now - Date.parse(run.begunAt));
      if (error === null) continue;
      this.fail(run, error);
      onAbandoned(run.job, error);
    }
    const finishedAt = (run: Run): number => Date.parse(run.record.finished_at ?? '');
    const finished = runs.filter(({ record }) => record.finished_at !== null);
    for (const run of finished.sort((a, b) => finishedAt(a) - finishedAt(b))) {
      this.table.noteSuccess(run.record);
      this.#finished.keep(run, now - finishedAt(run));
      this.bundles.retain(run, now - finishedAt(run));
    }
    return runs.filter(({ record }) => record.finished_at === null);
  }

  /** Deletes expired runs. Call this before reading, so that readers do not see any expired ones. */
  expire(): void {
    this.bundles.expire();
    this.#finished.expire();
  }

  get(runId: string): Run | undefined {
    return this.table.get(runId);
  }

  /** Resolves when the run has finished or is unknown, or when `signal` aborts. */
  async untilFinished(runId: string, signal: AbortSignal): Promise<void> {
    if (this.table.get(runId)?.record.finished_at === null) await this.#waiters.wait(runId, signal);
  }

  /** Adds a run to the queue. The returned `accepted` is its record before it was queued. */
  accept(
    job: PublishJob,
    { key, position }: Pick<Run, 'key' | 'position'>,
  ): { run: Run; accepted: RunRecord } {
    const { clock, journal } = this.#options;
    const accepted = acceptedRun(job, clock.now());
    const record = queuedRun(accepted, clock.now());
    const bundle = job.staged === null ? 'none' : 'staged';
    const waits = { job, bundle, record, key, position } as const;
    const storedRun: StoredRun = { ...waits, rerunAs: null, begun: 0, begunAt: null, reported: [] };
    const run: Run = { ...storedRun, ...fresh };
    this.table.add(run);
    this.table.feed.publish(run.record);
    run.kept = journal.saveAccepted(run);
    return { run, accepted };
  }

  /**
   * Queues a new run that repeats `old` and takes over its bundle, if it has one. The journal stores both
   * runs in the same transaction. Returns the same as `accept`.
   */
  rerun(old: Run, next: Rerun, position: number): { run: Run; accepted: RunRecord } {
    const job = rerunJob(old.job, next);
    const takeBack = this.bundles.handOver(old);
    old.rerunAs = next.runId;
    this.#notRerunnable(old);
    const { run, accepted } = this.accept(job, { key: null, position });
    run.undo = () => {
      if (this.table.get(old.job.runId) === undefined) {
        void this.#clear(run);
        return;
      }
      takeBack();
      old.rerunAs = null;
      this.table.change(old, { ...old.record, rerunnable: true });
    };
    return { run, accepted };
  }

  /** Removes a run that could not be accepted. If it was a rerun, the earlier run gets its bundle back. */
  withdraw(run: Run): void {
    this.table.remove(run);
    this.#waiters.finished(run.job.runId);
    run.undo?.();
  }

  start(run: Run): void {
    const record = startedRun(run.record, this.#options.clock.now());
    run.begun += 1;
    run.begunAt ??= record.started_at;
    this.table.change(run, record);
  }

  progress(run: Run, progress: JobProgress): void {
    const before = run.record;
    run.record = progressedRun(before, progress, this.#options.clock.now());
    this.table.feed.publish(run.record, before);
  }

  /** Records the worker's result. Unless the run is retried, call `retain` afterwards to notify waiters. */
  finish(run: Run, result: JobResult): void {
    this.#recordAttempt(run, finishedRun(run.record, result.run, this.#options.clock.now()));
  }

  /** Records that the worker crashed. Unless the run is retried, call `retain` to notify waiters. */
  crash(run: Run, error: unknown): void {
    this.#recordAttempt(run, failedRun(run.record, errorRecord(error), this.#options.clock.now()));
  }

  /** Fails a run that never started. Call `retain` to notify waiters. */
  fail(run: Run, error: unknown): void {
    this.#end(run, failedRun(run.record, errorRecord(error), this.#options.clock.now()));
  }

  /** Ends a cancelled run. `result` is what `cancelledRun` needs. Call `retain` to notify waiters. */
  cancel(run: Run, result: JobResult | null): void {
    const endRecord = cancelledRun(run.record, result?.run ?? null, this.#options.clock.now());
    // If the run was waiting, its end is reported by the caller of `JobQueue.cancel`.
    if (run.record.status === 'running') this.#options.onOutcome(run.job, endRecord);
    this.#end(run, endRecord);
  }

  /** Makes the next attempt of a waiting run due now. */
  makeDue(run: Run): void {
    this.table.change(run, makeRetryDue(run.record, this.#options.clock.now()));
  }

  /** Ends a run that is waiting for its next attempt, because a newer run publishes to the same place. */
  supersede(run: Run, by: Run): void {
    const endRecord = supersededRun(run.record, by.job.runId, this.#options.clock.now());
    this.#options.onOutcome(run.job, endRecord);
    this.#end(run, endRecord);
  }

  /** Returns the newest later run that publishes to the same place, or undefined if there is not one. */
  findNewer(run: Run): Run | undefined {
    const settings = this.#options.retries(run.job.pipelineId);
    return this.table.newestAfter(
      run,
      (newer) => newer.kept === null && hasSameTarget(run.job, newer.job, settings),
    );
  }

  /** From now on, failed runs are not retried. */
  stopRetries(): void {
    this.#hasRetries = false;
  }

  /** Puts the run back in the queue for another process. */
  requeue(run: Run): void {
    run.begun -= 1;
    this.table.change(run, returnedRun(run.record));
  }

  /** Starts the retention period of a finished run, and deletes its bundle unless the run can be rerun. */
  retain(run: Run): void {
    this.#finished.keep(run);
    this.#waiters.finished(run.job.runId);
    this.bundles.retain(run);
  }

  /** Stops deleting runs and ends all waits. Resolves once no call to `onExpire` is in progress. */
  async close(): Promise<void> {
    for (const runId of this.#waiters.runIds) this.#waiters.finished(runId);
    this.table.feed.close();
    await Promise.all([this.bundles.close(), this.#finished.close()]);
  }

  #recordAttempt(run: Run, endRecord: RunRecord): void {
    if (run.isInterrupted) {
      this.#end(run, endRecord);
      return;
    }
    const next =
      endRecord.status === 'failed' && this.#hasRetries ? this.#afterFailure(run, endRecord) : endRecord;
    this.#options.onOutcome(run.job, next);
    if (next.status !== 'queued') {
      this.#end(run, next);
      return;
    }
    run.begun = 0;
    this.table.change(run, next);
  }

  #afterFailure(run: Run, failed: RunRecord): RunRecord {
    const { clock, retries } = this.#options;
    const now = clock.now();
    const next = retryOrFail(failed, now, retries(run.job.pipelineId));
    const newer = next === failed ? undefined : this.findNewer(run);
    return newer === undefined ? next : supersededRun(failed, newer.job.runId, now);
  }

  #end(run: Run, record: RunRecord): void {
    this.table.change(run, { ...record, rerunnable: isRerunnable(run.job, record) });
  }

  #notRerunnable(run: Run): void {
    if (run.record.rerunnable) this.table.change(run, { ...run.record, rerunnable: false });
    else this.#options.journal.saveChange(run);
  }

  /** Deletes an expired run. Never rejects. */
  #forget(run: Run): Promise<void> {
    this.table.remove(run);
    this.bundles.forget(run);
    this.#options.onForget(run);
    return this.#clear(run);
  }

  /** Calls `onExpire`, and logs an error if it fails. Never rejects. */
  async #clear({ job }: Run): Promise<void> {
    const { log, onExpire } = this.#options;
    await onExpire(job).catch((error: unknown) =>
      log.error({ run_id: job.runId, err: error }, 'an expired run could not be removed'),
    );
  }
}

/*
 * The number of processes that may die while executing a run before the run fails. Crashes and power failures
 * at random times rarely hit the same run that often, but a bundle that crashes the process does. If the
 * crashes happen within minutes, the limit is higher, because a person or a supervisor may be killing the
 * process.
 */
const maxCrashes = 20;
const maxRapidCrashes = 100;
const rapidCrashMs = 600_000;

/** Returns an error if too many processes have died while executing a run that started `sinceMs` ago. */
function tooManyCrashes(crashes: number, sinceMs: number): WaybillError | null {
  if (crashes < (sinceMs < rapidCrashMs ? maxRapidCrashes : maxCrashes)) return null;
  return new WaybillError(
    'worker_failed',
    `the daemon ended ${crashes} times while it published this bundle`,
    {
      hint: 'find the cause in the logs of the daemon and the system, then upload the bundle again',
    },
  );
}
