import type { Clock } from '../../core/lib/clock.ts';
import { errorRecord, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { JobProgress, JobResult, PublishJob } from '../queue/job.ts';
import { isRerunnable, jobAgain, type KeepLimits, type NewRun } from '../queue/kept-bundles.ts';
import { RunWaiters } from '../queue/run-changes.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { afterFailure, dueRun, hasSamePlace, type RetriesOf, supersededRun } from '../queue/run-retry.ts';
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

export interface RunRegistryOptions {
  clock: Clock;
  log: Log;
  journal: Journal;
  /** How long a finished run is kept, in milliseconds. */
  retentionMs: number;
  /** Called once when a finished run is forgotten, before `onExpire`. */
  onForget: (run: Run) => void;
  /** How failed runs are retried. */
  retries: RetriesOf;
  /**
   * Called before the outcome of an attempt is recorded, or the end of a run that is waiting for its next
   * try. `next` is the run's new record.
   */
  onOutcome: (job: PublishJob, next: RunRecord) => void;
  /** Called when a run fails because too many processes died while running it. */
  onGivenUp: (job: PublishJob, error: WaybillError) => void;
  /** Called once when a finished run is forgotten. The job's staged directory can then be removed. */
  onExpire: (job: PublishJob) => Promise<void>;
  /** Called when a job no longer needs its staged files but its record is kept. Default: no-op. */
  discard?: (job: PublishJob) => Promise<void>;
  /** How long bundles of ended runs stay staged. Default: as long as their records are kept. */
  keep?: KeepLimits;
}

/**
 * The records of all runs, and the only code that changes them. The order of calls is `accept`, `start`,
 * `progress`, then `finish`, `fail`, `cancel` or `requeue`. A run is forgotten when its retention period
 * ends. Every change except progress goes to the journal.
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
    const { keep: limits = { keepMs: retentionMs, maxBundles: Infinity, maxBytes: Infinity } } = options;
    this.#options = options;
    this.table = new RunTable(clock, options.journal);
    this.bundles = new Bundles({
      ...options,
      limits,
      discard: options.discard ?? (async () => undefined),
      onGone: (run) => this.#notRerunnable(run),
    });
    this.#finished = new Retention({ clock, retentionMs, onExpire: (run) => this.#forget(run) });
  }

  /**
   * Restores the runs of earlier processes. Returns the waiting ones in order. A run that was in progress
   * waits again, or fails if too many processes died while running it.
   */
  restore(): Run[] {
    const { clock, journal, onGivenUp } = this.#options;
    const runs = journal.runs.map((kept): Run => ({ ...kept, ...fresh }));
    const now = clock.now().getTime();
    for (const run of runs) {
      this.table.add(run);
      if (run.record.finished_at !== null) continue;
      // The start of the run may not have been stored, but it cannot precede the acceptance.
      run.begunAt ??= run.record.accepted_at;
      this.table.change(run, returnedRun(run.record));
      const error = tooManyCrashes(run.begun, now - Date.parse(run.begunAt));
      if (error === null) continue;
      this.fail(run, error);
      onGivenUp(run.job, error);
    }
    const finishedAt = (run: Run): number => Date.parse(run.record.finished_at ?? '');
    const finished = runs.filter(({ record }) => record.finished_at !== null);
    for (const run of finished.sort((a, b) => finishedAt(a) - finishedAt(b))) {
      this.table.noteSuccess(run.record);
      this.#finished.keep(run, now - finishedAt(run));
      this.bundles.ended(run, now - finishedAt(run));
    }
    return runs.filter(({ record }) => record.finished_at === null);
  }

  /** Forgets expired runs. Called before reads, so that readers never see an expired run. */
  expire(): void {
    this.bundles.expire();
    this.#finished.expire();
  }

  get(runId: string): Run | undefined {
    return this.table.get(runId);
  }

  /** Resolves when the run is finished or unknown, or when `signal` aborts. */
  async untilFinished(runId: string, signal: AbortSignal): Promise<void> {
    if (this.table.get(runId)?.record.finished_at === null) await this.#waiters.wait(runId, signal);
  }

  /** Adds a queued run. `accepted` is its record before it was queued. */
  accept(
    job: PublishJob,
    { key, position }: Pick<Run, 'key' | 'position'>,
  ): { run: Run; accepted: RunRecord } {
    const { clock, journal } = this.#options;
    const accepted = acceptedRun(job, clock.now());
    const record = queuedRun(accepted, clock.now());
    const bundle = job.staged === null ? 'none' : 'staged';
    const waits = { job, bundle, record, key, position } as const;
    const kept: StoredRun = { ...waits, rerunAs: null, begun: 0, begunAt: null, reported: [] };
    const run: Run = { ...kept, ...fresh };
    this.table.add(run);
    this.table.feed.changed(run.record);
    run.kept = journal.accepted(run);
    return { run, accepted };
  }

  /**
   * Queues a run that repeats `old` and takes over its bundle, if any. The journal stores both runs in one
   * step. Returns the same values as `accept`.
   */
  rerun(old: Run, next: NewRun, position: number): { run: Run; accepted: RunRecord } {
    const job = jobAgain(old.job, next);
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

  /** Removes a run that was not accepted after all. Restores the run that it was meant to repeat. */
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
    this.table.feed.changed(run.record, before);
  }

  /** The worker returned a result. The run has ended or waits for its next try. `keep` notifies waiters. */
  finish(run: Run, result: JobResult): void {
    this.#tried(run, finishedRun(run.record, result.run, this.#options.clock.now()));
  }

  /** Called when the worker broke. The run has failed or waits for its next try. `keep` notifies waiters. */
  broke(run: Run, error: unknown): void {
    this.#tried(run, failedRun(run.record, errorRecord(error), this.#options.clock.now()));
  }

  /** Fails a run that has not started. `keep` notifies waiters. */
  fail(run: Run, error: unknown): void {
    this.#end(run, failedRun(run.record, errorRecord(error), this.#options.clock.now()));
  }

  /** Ends a cancelled run. `result` is the same as for `cancelledRun`. `keep` notifies waiters. */
  cancel(run: Run, result: JobResult | null): void {
    const ended = cancelledRun(run.record, result?.run ?? null, this.#options.clock.now());
    // For a waiting run, the caller of `JobQueue.cancel` reports the end.
    if (run.record.status === 'running') this.#options.onOutcome(run.job, ended);
    this.#end(run, ended);
  }

  /** Makes a waiting run's next try due. */
  makeDue(run: Run): void {
    this.table.change(run, dueRun(run.record, this.#options.clock.now()));
  }

  /** Ends a run that is waiting for its next try, because a newer run publishes to the same place. */
  supersede(run: Run, by: Run): void {
    const ended = supersededRun(run.record, by.job.runId, this.#options.clock.now());
    this.#options.onOutcome(run.job, ended);
    this.#end(run, ended);
  }

  /** Returns the newest later run that publishes to the same place. Returns undefined if there is none. */
  newerOf(run: Run): Run | undefined {
    const settings = this.#options.retries(run.job.pipelineId);
    return this.table.newestAfter(
      run,
      (newer) => newer.kept === null && hasSamePlace(run.job, newer.job, settings),
    );
  }

  /** Stops retrying failed runs. */
  endRetries(): void {
    this.#hasRetries = false;
  }

  /** Queues the run again for another process. */
  requeue(run: Run): void {
    run.begun -= 1;
    this.table.change(run, returnedRun(run.record));
  }

  /** Starts the retention period of an ended run. Removes its bundle unless the run can be repeated. */
  keep(run: Run): void {
    this.#finished.keep(run);
    this.#waiters.finished(run.job.runId);
    this.bundles.ended(run);
  }

  /** Stops forgetting runs and ends all waits. Resolves once no `onExpire` call is in progress. */
  async close(): Promise<void> {
    for (const runId of this.#waiters.runIds) this.#waiters.finished(runId);
    this.table.feed.close();
    await Promise.all([this.bundles.close(), this.#finished.close()]);
  }

  /** Applies a run's record at the end of an attempt. */
  #tried(run: Run, ended: RunRecord): void {
    if (run.isInterrupted) {
      this.#end(run, ended);
      return;
    }
    const next = ended.status === 'failed' && this.#hasRetries ? this.#afterFailure(run, ended) : ended;
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
    const next = afterFailure(failed, now, retries(run.job.pipelineId));
    const newer = next === failed ? undefined : this.newerOf(run);
    return newer === undefined ? next : supersededRun(failed, newer.job.runId, now);
  }

  #end(run: Run, record: RunRecord): void {
    this.table.change(run, { ...record, rerunnable: isRerunnable(run.job, record) });
  }

  #notRerunnable(run: Run): void {
    if (run.record.rerunnable) this.table.change(run, { ...run.record, rerunnable: false });
    else this.#options.journal.changed(run);
  }

  /** Never rejects. */
  #forget(run: Run): Promise<void> {
    this.table.remove(run);
    this.bundles.forgotten(run);
    this.#options.onForget(run);
    return this.#clear(run);
  }

  /** Never rejects. */
  async #clear({ job }: Run): Promise<void> {
    const { log, onExpire } = this.#options;
    await onExpire(job).catch((error: unknown) =>
      log.error({ run_id: job.runId, err: error }, 'an expired run could not be cleared away'),
    );
  }
}

/*
 * A run fails after this many processes have died while running it. Crashes and power failures at random
 * times rarely hit the same run this often, but a bundle that crashes the process does. The limit is higher
 * for crashes within minutes, because a person or a supervisor may be killing the process repeatedly.
 */
const maxCrashes = 20;
const maxRapidCrashes = 100;
const rapidCrashMs = 600_000;

/** Returns an error if too many processes died while running a run that started `sinceMs` ago. */
function tooManyCrashes(crashes: number, sinceMs: number): WaybillError | null {
  if (crashes < (sinceMs < rapidCrashMs ? maxRapidCrashes : maxCrashes)) return null;
  return new WaybillError(
    'worker_failed',
    `the daemon ended ${crashes} times while it published this bundle`,
    {
      hint: "look into the log and the system's for what ended it, then upload the bundle again",
    },
  );
}
